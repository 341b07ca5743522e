"""Another workflow that uses this one as a module with a prefix: all results lie under the prefix."""

import json
import re

import pytest
import snakemake_forks
import yaml
from stub_checkout import ROOT, environment, make_checkout

pytestmark = pytest.mark.slow

PREFIXED = re.compile(r"(?<!x/)\bresults/")
"""A path in the results that is not below the prefix."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("module") / "checkout")


def project(folder, checkout, **config):
    """A project with a table and a text, that uses the workflow with a prefix and makes all of it."""
    given = yaml.safe_load((ROOT / "config/test.yaml").read_text())
    given |= {"models": {"embedded-shared": {"source": "embedded:embedded-shared"}}, **config}
    given.setdefault("variant_operators", [])
    (folder / "Snakefile").write_text(
        f"module form_invariance:\n    snakefile: {str(checkout / 'Snakefile')!r}\n"
        f"    config: {given!r}\n    prefix: 'x'\n"
        "use rule * from form_invariance as fi_*\n"
        "rule mine:\n    default_target: True\n    input: rules.fi_all.input\n"
    )
    return folder


def run(folder, checkout, *words):
    return snakemake_forks.run((*words, "--cores", "2"), folder, environment(checkout))


def commands(out):
    """The shell commands and the files of a dry run, each on a line."""
    return [line for line in out.splitlines() if "results/" in line]


def test_every_path_of_a_command_has_the_prefix(checkout, tmp_path):
    low = {"low": {"source": "embedded:embedded-shared", "dtype": "bfloat16"}}
    config = {"models": low, "corrupt": "across_operators", "late_from": 2}
    status, out = run(project(tmp_path, checkout, **config), checkout, "-n", "-p")
    assert status == 0, out
    assert len(commands(out)) > 200
    assert [line for line in commands(out) if PREFIXED.search(line)] == []


def test_a_module_with_a_prefix_runs_and_leaves_the_users_files_where_they_are(checkout, tmp_path):
    (tmp_path / "text.txt").write_text("The plain text of a user, for specificity.\n" * 100)
    target = "x/results/embedded-shared/code/addition/dataset.parquet"
    status, out = run(project(tmp_path, checkout, specificity_text="text.txt"), checkout, target)
    assert status == 0, out
    assert (tmp_path / target).exists()
    assert not (tmp_path / "results").exists()
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [word for call in calls for word in call if PREFIXED.search(word)] == []
    status, out = run(tmp_path, checkout, "-n", target)
    assert "Nothing to be done" in out, out
    status, out = run(tmp_path, checkout, "-n", "-p")
    assert "--text=text.txt" in out
    assert "--benchmarks x/results/benchmarks" in out
