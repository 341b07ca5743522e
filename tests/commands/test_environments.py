"""Commands in environments that others leave behind: notebooks, clusters, containers."""

import os
import subprocess
import sys

import pytest
from stub_checkout import ROOT
from test_figure_commands import TABLES, write_tables

pytestmark = pytest.mark.slow

HOSTILE = {
    **{"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    **{"PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2", "PYTHONHASHSEED": "7"},
    **{"NO_COLOR": "1", "COLUMNS": "5", "TERM": "dumb", "TZ": "no/zone", "HOME": "/proc/none", "TMPDIR": "a b"},
    **{"MPLCONFIGDIR": "config", "XDG_CACHE_HOME": "cache", "MPLBACKEND": "no such backend"},
}


def draw(folder, environment):
    """What a command draws in an environment."""
    words = ["figure", "overlap", "overlap", "--tables", *TABLES, "--title", "m", "--k", "50"]
    folder.mkdir()
    write_tables(folder)
    (folder / "a b").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "form_invariance", *words, "--output", "é.svg"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return (folder / "é.svg").read_bytes()


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("ordinary") / "run", {})


@pytest.mark.parametrize("backend", ["module://no.such.module", "TkAgg"])
def test_figures_need_no_backend_of_a_notebook_or_a_screen(ordinary, tmp_path, backend):
    assert draw(tmp_path / "run", {"MPLBACKEND": backend}) == ordinary


def test_the_environment_changes_no_figure(ordinary, tmp_path):
    assert draw(tmp_path / "run", HOSTILE) == ordinary
