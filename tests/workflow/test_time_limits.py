"""The time limits of jobs."""

from functools import partial

import pytest
from snakemake.iocontainers import Wildcards
from stub_checkout import ROOT

from form_invariance.workflow import config_check, cpu_costs, job_costs, job_sizes, plan

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
