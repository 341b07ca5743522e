"""What a job asks of a partition, and what the partition gives."""

from functools import partial

import pandas as pd
import pytest
from snakemake.iocontainers import Wildcards
from stub_checkout import ROOT

from form_invariance.workflow import config_check, cpu_costs, job_costs, job_sizes, partitions, plan

CONFIG = config_check.load(ROOT / "config/config.yaml") | {"models": {"m": {"source": "meta-llama/Llama-3.2-1B"}}}
LARGE = CONFIG | {"train_prompts": 1000, "candidates": 8192}
CELL = {"model": "m", "format": "word", "operator": "addition"}


def asked(config, rule, wildcards, attempt=1):
    """Minutes that a rule's job asks for, as Snakemake computes it."""
    seconds = partial(cpu_costs.expected_seconds, config)
    site = {"cpu": {}, "gpu": {}}
    resources = job_sizes.model_job(config["models"], site, lambda: True, lambda: False, seconds, rule)
    return resources["runtime"](Wildcards(fromdict=wildcards), attempt)


@pytest.mark.parametrize("rule", job_costs.OPERATIONS)
@pytest.mark.parametrize("config", [CONFIG, LARGE])
def test_a_job_asks_for_more_than_twice_the_time_that_plan_expects(tmp_path, config, rule):
    for wildcards in (CELL, {"model": "m"}):
        job = plan.Job(rule, wildcards, "b.tsv", "", True)
        (seconds,) = plan.make([job], [job], tmp_path, config)["seconds"]
        assert 10 + 2 * seconds / 60 < asked(config, rule, wildcards) < 12 + 3 * seconds / 60
        assert asked(config, rule, wildcards, 2) == 2 * asked(config, rule, wildcards)


def asked_of_tables(config, rule, attempt=1):
    job = job_sizes.table_job({"cpu": {}}, lambda: False, partial(cpu_costs.cpu_seconds, config), rule, mem_mb=1)
    return job["runtime"](Wildcards(fromdict=CELL), attempt)


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ("overlap", "bootstrap"),
        ("agreement", "permutations"),
        ("heuristic_null", "heuristic_max_operand"),
    ],
)
def test_the_limit_of_a_job_on_tables_follows_its_work(rule, key):
    usual, hard = (asked_of_tables(CONFIG | {key: times * CONFIG[key]}, rule) for times in (1, 100))
    assert 10 < usual < 60
    assert hard > 3 * usual
    assert asked_of_tables(CONFIG, rule, 2) == 2 * usual


def test_the_random_maps_of_a_grid_are_counted():
    from form_invariance.stages.heuristics import null

    assert null.MAPS + null.SCALE_MAPS == cpu_costs.MAPS


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1:00:00", 60),
        ("30:00", 30),
        ("2-01:30:30", 2970.5),
        ("infinite", None),
    ],
)
def test_times_of_slurm(text, minutes):
    assert partitions.minutes_of(text) == minutes


def test_limits_are_those_that_slurm_tells(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert partitions.limits() == {}
    (tmp_path / "sinfo").write_text("#!/bin/sh\nprintf 'gpu 1:00:00\\nshort* 30:00\\nlong infinite\\n'\n")
    (tmp_path / "sinfo").chmod(0o755)
    assert partitions.limits() == {"gpu": 60, "short": 30, partitions.DEFAULT: 30}


def test_jobs_that_ask_for_more_are_named():
    rows = [("patching", "gpu", 208, True), ("patching", "gpu", 90, True), ("census", "", 40, True)]
    rows += [("probe", "long", 999, True), ("transfer", "gpu", 999, False), ("overlap", "gpu", 60, True)]
    jobs = pd.DataFrame(rows, columns=["rule", "partition", "minutes", "pending"])
    patching, census = partitions.beyond(jobs, {"gpu": 60, "short": 30, partitions.DEFAULT: 30})
    assert patching.startswith("patching asks for 208 minutes a job, but the partition gpu gives 60; name another")
    assert census.startswith("census asks for 40 minutes a job, but the default partition gives 30; ")
    assert partitions.beyond(jobs, {}) == []
