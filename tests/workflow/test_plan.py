"""The table of what a run would do."""

import re
import subprocess

import numpy as np
import pandas as pd
import pytest
import yaml
from stub_checkout import ROOT, snakemake

from benchmark.measure import replay_operations
from form_invariance.cli import main
from form_invariance.workflow import cell_sizes, config_check, job_costs, job_sizes, plan

pytestmark = pytest.mark.slow

LISTING = """
rule census:
    output: results/m/word/addition/census.parquet
    benchmark: results/benchmarks/census/m/word/addition.tsv
    reason: Missing output files: results/m/word/addition/census.parquet
    wildcards: model=m, format=word, operator=addition
    resources: tmpdir=/tmp, gpu=1, runtime=20, mem_mb=4004

rule dataset:
    output: results/m/word/addition/dataset.parquet, results/m/word/addition/corrupt.parquet
    benchmark: results/benchmarks/dataset/m/word/addition.tsv
    reason: Input files updated by another job: x
    wildcards: model=m, format=word, operator=addition
    resources: tmpdir=/tmp, runtime=10, mem_mb=1000

localrule all:
    jobid: 0
"""


def benchmark(root, path, seconds):
    file = root / "results/benchmarks" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")


MODEL = {"source": "meta-llama/Llama-3.2-1B"}
CONFIG = config_check.load(ROOT / "config/config.yaml") | {"models": {"m": MODEL}}


def test_jobs_of_a_dry_run_and_their_hours_by_past_runs(tmp_path):
    pending = census, dataset = plan.jobs(LISTING, tmp_path)
    assert (census.rule, census.wildcards["model"], census.reason) == ("census", "m", plan.NOT_THERE)
    assert census.on_gpu
    assert not dataset.on_gpu
    other = plan.PlannedJob("census", census_of("code"), "results/benchmarks/census/m/code/addition.tsv", "", True)

    def shown():
        return plan.table(plan.make(pending, [*pending, other], tmp_path, CONFIG, None))

    assert "2 of 3 jobs are pending." in shown()
    assert "1 jobs read a model's weights; on a cluster they are 1 groups." in shown()
    assert "1 jobs that read tables alone never ran; most take seconds." in shown()
    benchmark(tmp_path, "census/m/code/addition.tsv", 3600)  # a neighbour's time is the guess
    benchmark(tmp_path, "dataset/m/word/addition.tsv", 1800)
    assert "Time: 1.00 GPU hours, 0.50 CPU hours. On eight GPUs that is at least 0.12 hours." in shown()
    benchmark(tmp_path, "census/m/word/addition.tsv", 7200)  # its own time is better
    assert "2.00 GPU hours" in shown()
    (tmp_path / "results/m/word/addition").mkdir(parents=True)
    (tmp_path / "results/m/word/addition/census.parquet").touch()
    assert plan.jobs(LISTING, tmp_path)[0].reason == "output is missing"


def test_a_group_has_jobs_of_one_rule():
    rules = ["census"] * (job_costs.GROUPED + 1) + ["probe", "specificity", "specificity"]
    jobs = pd.DataFrame({"rule": rules, "model": "m", "pending": True, "loads": True, "on_gpu": True})
    assert plan._total(jobs.assign(seconds=np.nan, past=np.nan))[1].endswith("on a cluster they are 5 groups.")


def census_of(form):
    return {"model": "m", "format": form, "operator": "addition"}


def test_a_jobs_time_by_its_operations_and_by_the_models_past_rate(tmp_path):
    """The estimate is operations over rate, and the reading; a model's past job sets the rate of its others."""
    census, patching = (
        plan.PlannedJob(rule, census_of("word"), f"results/benchmarks/{rule}/m/word/addition.tsv", "", True)
        for rule in ("census", "patching")
    )
    work = {rule: job_costs.operations(rule, CONFIG, "m", census_of("word")) for rule in ("census", "patching")}
    reading = job_costs.reading_seconds(MODEL, "census")

    def seconds(rate=None):
        return plan.make([], [census, patching], tmp_path, CONFIG, rate)["seconds"].tolist()

    assert seconds(1e12) == pytest.approx([work[rule] / 1e12 + reading for rule in work])
    assert seconds() == pytest.approx([work[rule] / job_costs.FLOP_RATES["float32"] + reading for rule in work])
    benchmark(tmp_path, "census/m/word/addition.tsv", 100)
    assert seconds() == pytest.approx([100, work["patching"] / (work["census"] / 100) + reading])


def test_long_jobs_on_tables_have_hours_and_several_processes(tmp_path):
    config = config_check.load(ROOT / "config/paper.yaml")
    config = {**config_check.load(ROOT / "config/config.yaml"), **config, "k_shown": 2000}
    jobs = [
        plan.PlannedJob(rule, {"model": "llama-3-8b"} if rule != "heuristic_null" else {}, rule, "", False)
        for rule in job_costs.table_seconds(config, "llama-3-8b")
    ]
    jobs.append(plan.PlannedJob("dataset", {"model": "llama-3-8b"}, "dataset", "", False))
    found = plan.make(jobs, jobs, tmp_path, config).set_index("rule")
    labels = found["seconds"]["heuristics"]
    shared = config["k_shown"] / 2 * 16
    assert labels == pytest.approx((2 * shared + 800) * (job_costs.A_MAP + 300**2 * job_costs.A_PAIR))
    assert (found["seconds"].drop("dataset") > 60).all()
    assert np.isnan(found["seconds"]["dataset"])
    assert not found["loads"].any()
    assert job_costs.labelling_processes(config, "llama-3-8b") == min(8, labels // 60)
    assert job_costs.labelling_processes(CONFIG | {"heuristic_max_operand": 9}, "m") == 1


def test_operations_of_exact_patching_are_those_of_the_bench():
    """Oracle: candidates times prompts times draws times the operations that the bench counts for a patch."""
    model = {"source": "embedded:embedded-shared", "readout": "full"}
    c, config = job_sizes.known_sizes(model), CONFIG | {"models": {"m": model}}
    cell = cell_sizes.CellSizes(config, cell_sizes.size_of(model), "symbolic", "addition")
    late = range(c.n_layers // 2, c.n_layers)
    a_patch = sum(replay_operations(c, c.n_layers - layer - 1, 0) for layer in late) / len(late)
    candidates = min(config["candidates"], c.d_mlp) * len(late)
    patches = config["train_prompts"] * config["corrupt_seeds"] * candidates
    first_stage = 2 * cell.passes(config["train_prompts"])
    assert job_costs.OPERATIONS["patching"](cell) == pytest.approx(first_stage + patches * a_patch)


def test_work_grows_with_the_model_and_in_proportion_to_what_is_asked():
    def work(rule, key=None, source=MODEL["source"], **wildcards):
        config = CONFIG | {"models": {"m": {"source": source}}} | ({key: 2 * CONFIG[key]} if key else {})
        return job_costs.operations(rule, config, "m", wildcards or census_of("word"))

    for rule in job_costs.OPERATIONS:
        assert 0 < work(rule) < work(rule, source="meta-llama/Meta-Llama-3-8B"), rule
    # The longest prompts are those in words.
    assert work("census", **census_of("symbolic")) < work("census")
    assert work("transfer", "transfer_pairs") == pytest.approx(2 * work("transfer"))
    assert work("activation_maps", "heuristic_max_operand") == pytest.approx(4 * work("activation_maps"))
    cell = cell_sizes.CellSizes(CONFIG, cell_sizes.size_of(MODEL), "word", "addition")
    runs = len(job_costs.INTERVENED) * len(CONFIG["k"]) * job_costs._controls(CONFIG) * CONFIG["eval_prompts"]
    assert work("interventions") < 2 * cell.passes(runs), "no run costs more than every token in every layer"


def test_every_rule_that_reads_weights_has_a_cost():
    rules = "\n".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
    blocks = re.split(r"^(?:use rule \w+ as|rule) ", rules, flags=re.MULTILINE)[1:]
    reading = {re.match(r"\w+", block)[0] for block in blocks if "**model_job(" in block}
    assert reading - {"model_files"} == set(job_costs.OPERATIONS)


def test_the_groups_of_the_profile_are_those_that_are_planned():
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    groups = dict(item.split("=") for item in profile["groups"])
    sizes = dict(item.split("=") for item in profile["group-components"])
    assert {rule for rule in groups if rule in job_costs.OPERATIONS} == set(job_costs.GROUPED_RULES)
    assert {sizes[groups[rule]] for rule in job_costs.GROUPED_RULES} == {str(job_costs.GROUPED)}
    assert set(groups.values()) == set(sizes)


def test_a_model_of_the_hub_that_is_not_here_is_named():
    models = {"here": {"source": "embedded:embedded-shared"}, "there": {"source": "nobody/none-1b"}}
    (said,) = plan.unseen({"models": models})
    assert said.startswith("Model there: nobody/none-1b is not in the hub's cache.")


@pytest.fixture
def run_plan(finished, monkeypatch, capsys):
    """Run the command in a finished checkout; returns its exit status and what it printed."""
    monkeypatch.chdir(finished)
    done = subprocess.CompletedProcess
    monkeypatch.setattr(subprocess, "run", lambda call, **_: done(call, *snakemake(finished, *call[3:]), ""))
    return lambda *words: (main(["plan", *words]), capsys.readouterr())


def test_the_plan_names_the_jobs_of_a_change_and_why(run_plan):
    status, said = run_plan("--config", "random_seeds=4", "matched_seeds=1")
    assert status == 0, said.err
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    row = r"interventions 6 of 6 [0-9.]+ settings, source or files of the user have changed \(6\)"
    assert any(re.fullmatch(row, line) for line in lines)
    (counts,) = filter(None, (re.match(r"(\d+) of (\d+) jobs are pending", line) for line in lines))
    assert 0 < int(counts[1]) < int(counts[2])
    # A verdict that stays undefined is named.
    assert lines[-1].startswith("warning: config key matched_seeds: a control with one draw")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-d", "none"], "--directory: there is no folder 'none'"),
        (["--configfile", "code.yaml"], "code.yaml .*__use_yte__"),
        (["--config", "k=[10]"], r"--config k=\[10\]: write KEY=VALUE; Snakemake refuses keys of one letter"),
    ],
)
def test_a_mistake_is_one_sentence(run_plan, finished, words, sentence):
    (finished / "code.yaml").write_text("__use_yte__: true\nseed: ?open('pwned', 'w') and 1\n")
    status, said = run_plan(*words)
    assert status == 2
    assert re.match(f"error: {sentence}", said.err), said.err
    assert "Traceback" not in said.err
    (finished / "code.yaml").unlink()
    assert not {"pwned", "none"} & {path.name for path in finished.iterdir()}
