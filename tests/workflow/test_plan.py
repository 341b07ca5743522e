"""The table of what a run would do."""

import re

import pytest
from stub_checkout import environment

from form_invariance.cli import main
from form_invariance.workflow import plan

pytestmark = pytest.mark.slow

LISTING = """
[Sat Nov 21 15:00:00 2026]
rule census:
    input: config.json
    output: results/m/word/addition/census.parquet
    jobid: 3
    benchmark: results/benchmarks/census/m/word/addition.tsv
    reason: Missing output files: results/m/word/addition/census.parquet
    wildcards: model=m, format=word, operator=addition
    resources: tmpdir=/tmp, gpu=1, runtime=20, mem_mb=4004

rule dataset:
    jobid: 4
    benchmark: results/benchmarks/dataset/m/word/addition.tsv
    reason: Params have changed since last execution: before: 1; Input files updated by another job: x
    wildcards: model=m, format=word, operator=addition
    resources: tmpdir=/tmp, runtime=10, mem_mb=1000

rule summary_figure:
    jobid: 5
    benchmark: results/benchmarks/figures/summary.tsv
    reason: Input files updated by another job: x
    resources: tmpdir=/tmp, runtime=10

localrule all:
    jobid: 0
    reason: Input files updated by another job: results/figures/summary.png
"""


def benchmark(root, path, seconds):
    file = root / "results/benchmarks" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")


def test_jobs_of_a_dry_run():
    census, dataset, figure = plan.jobs(LISTING)
    assert (census.rule, census.model, census.on_gpu, census.reason) == ("census", "m", True, "output is missing")
    assert (dataset.on_gpu, figure.model) == (False, plan.EVERY_MODEL)


def test_hours_by_past_runs(tmp_path):
    pending = plan.jobs(LISTING)
    other = plan.Job("census", "m", "results/benchmarks/census/m/code/addition.tsv", "", True)
    table = plan.table(plan.make(pending, [*pending, other], tmp_path))
    assert "census 1 of 2 output is missing (1)" in [" ".join(line.split()) for line in table.splitlines()]
    assert "3 of 4 jobs are pending. None of them ever ran" in table
    benchmark(tmp_path, "census/m/code/addition.tsv", 3600)  # a neighbour's time is the guess
    benchmark(tmp_path, "dataset/m/word/addition.tsv", 1800)
    table = plan.table(plan.make(pending, [*pending, other], tmp_path))
    assert "Time by past runs: 1.00 GPU hours, 0.50 CPU hours, plus 1 jobs that never ran." in table
    benchmark(tmp_path, "census/m/word/addition.tsv", 7200)  # its own time is better
    assert "2.00 GPU hours" in plan.table(plan.make(pending, [*pending, other], tmp_path))


@pytest.fixture
def run_plan(finished, monkeypatch, capsys):
    """Run the command in a finished checkout; returns its exit status and what it printed."""
    monkeypatch.chdir(finished)
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, environment(finished)[name])

    def run(*words):
        status = main(["plan", *words])
        return status, capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("words", "row", "idle"),
    [
        ([], "census 0 of 6", True),
        (["--config", "random_seeds=4"], "interventions 6 of 6 settings or source have changed (6)", False),
    ],
)
def test_command(run_plan, words, row, idle):
    status, said = run_plan(*words)
    assert status == 0, said.err
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert row in lines
    pending, total = map(int, re.match(r"(\d+) of (\d+) jobs", lines[-1]).groups())
    assert (pending == 0) == idle
    assert pending < total


def test_results_may_lie_elsewhere(run_plan, tmp_path):
    benchmark(tmp_path, "census/embedded-shared/word/addition.tsv", 3600)
    status, said = run_plan("--directory", str(tmp_path))
    assert status == 0, said.err
    assert re.search(r"(\d+) of \1 jobs are pending. Time by past runs: 6.00 GPU hours", said.out)
    assert (tmp_path / ".snakemake").exists()


def test_a_folder_without_a_snakefile_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "--configfile", "config/paper.yaml"]) == 2
    sentence = f"error: there is no Snakefile in {tmp_path}; run this in the checkout\n"
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [("k: [10\n", "is not valid YAML"), ("__use_yte__: true\nseed: ?open('pwned', 'w') and 1\n", "__use_yte__")],
)
def test_a_file_that_cannot_be_read_is_named(run_plan, finished, tmp_path, text, words):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    status, said = run_plan("--configfile", str(path))
    assert status == 2
    assert said.err.startswith(f"error: {path} ")
    assert words in said.err
    assert not (finished / "pwned").exists()


def test_a_mistake_is_snakemakes_sentence(run_plan):
    status, said = run_plan("--config", "sede=1")
    assert status == 2
    assert said.err.startswith("error: config: unknown key 'sede'")
    assert "Traceback" not in said.err
