"""Another workflow that uses this one as a module with a prefix: all results lie under the prefix."""

import re

import pytest
import yaml
from stub_checkout import ROOT, make_checkout, snakemake

pytestmark = pytest.mark.slow

PREFIXED = re.compile(r"(?<!x/)\bresults/")
"""A path in the results that is not below the prefix."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("module") / "checkout")


def run(folder, checkout, *words, **config):
    """What Snakemake prints in a project that uses the workflow with a prefix, and makes all of it."""
    given = yaml.safe_load((ROOT / "config/test.yaml").read_text())
    given |= {"models": {"low": {"source": "embedded:embedded-shared", "dtype": "bfloat16"}}}
    given |= {"variant_operators": [], **config}
    (folder / "Snakefile").write_text(
        f"module form_invariance:\n    snakefile: {str(checkout / 'Snakefile')!r}\n"
        f"    config: {given!r}\n    prefix: 'x'\n"
        "use rule * from form_invariance as fi_*\n"
        "rule mine:\n    default_target: True\n    input: rules.fi_all.input\n"
    )
    status, out = snakemake(checkout, *words, "--cores", "2", folder=folder)
    assert status == 0, out
    return out


def test_a_module_with_a_prefix_runs_and_leaves_the_users_files_where_they_are(checkout, tmp_path):
    (tmp_path / "text.txt").write_text("The plain text of a user, for specificity.\n" * 100)
    config = {"specificity_text": "text.txt", "corrupt": "across_operators", "late_from": 2}
    planned = run(tmp_path, checkout, "-n", "-p", **config)
    lines = [line for line in planned.splitlines() if "results/" in line]
    assert len(lines) > 200
    assert [line for line in lines if PREFIXED.search(line)] == []
    assert "--text=text.txt" in planned
    assert "--benchmarks x/results/benchmarks" in planned
    target = "x/results/low/code/addition/dataset.parquet"
    run(tmp_path, checkout, target, **config)
    assert (tmp_path / target).exists()
    assert not (tmp_path / "results").exists()
    assert not PREFIXED.search((tmp_path / "calls.jsonl").read_text())
    assert "Nothing to be done" in run(tmp_path, checkout, "-n", target, **config)
