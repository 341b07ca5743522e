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
    **{"MPLCONFIGDIR": "config", "XDG_CACHE_HOME": "cache", "MPLBACKEND": "module://no.such.module"},
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


def test_the_environment_changes_no_figure(tmp_path):
    """Neither the settings of a system nor the backend of a notebook."""
    assert draw(tmp_path / "hostile", HOSTILE) == draw(tmp_path / "ordinary", {})
