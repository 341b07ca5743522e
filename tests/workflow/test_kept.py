"""The runs of the planted models make what they made before."""

import kept
import planted_run
import pytest


@pytest.mark.parametrize("which", ["planted", "separate"])
def test_a_run_makes_what_it_made(which, tmp_path_factory):
    run = getattr(planted_run, which)(tmp_path_factory)
    kept.check(which, kept.of_files(run.results), 0.02)
