"""A whole run of the small grid, whose jobs are then killed, starved and fed damaged files."""

import shutil
import subprocess
import sys

import pytest

from faults.commands import finished_jobs, run
from stub_checkout import ROOT, environment


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """A folder in which the small grid has run."""
    folder = tmp_path_factory.mktemp("run") / "checkout"
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("workflow", "config", "src", "envs"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    words = [sys.executable, "-m", "snakemake", "--configfile", "config/test.yaml", "--quiet", "all"]
    subprocess.run(words, cwd=folder, env=environment(folder), check=True, timeout=1800)
    return folder


@pytest.fixture(scope="session")
def jobs(finished_run):
    """One job of every rule that ran a command."""
    by_rule = {job.rule: job for job in finished_jobs(finished_run)}
    assert len(by_rule) > 25
    # It tells the run times of all jobs, also of those that ended after it.
    assert run(by_rule["report"], finished_run)[0] == 0
    return by_rule
