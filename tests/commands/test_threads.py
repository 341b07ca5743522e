"""Threads wait without spinning, and NumPy has one, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

SHOW = """
import os, sys
from form_invariance.cli import main
assert not {"numpy", "torch"} & set(sys.modules)  # they read the environment when they start
try:
    main(["--version"])
finally:
    print(os.environ["OMP_WAIT_POLICY"], os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.parametrize("given", [{}, {"OMP_WAIT_POLICY": "active", "OPENBLAS_NUM_THREADS": "7"}])
def test_threads_are_set_before_the_libraries_start(given):
    names = ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    words = [sys.executable, "-c", SHOW]
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.split()[-2:] == list(given.values() or ("passive", "1"))
