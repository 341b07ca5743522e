"""The time limits of jobs."""

from functools import partial

import pytest
from snakemake.iocontainers import Wildcards
from stub_checkout import ROOT

from form_invariance.workflow import config_check, job_costs, job_sizes, plan

CONFIG = config_check.load(ROOT / "config/config.yaml") | {"models": {"m": {"source": "meta-llama/Llama-3.2-1B"}}}
LARGE = CONFIG | {"train_prompts": 1000, "candidates": 8192}
CELL = {"model": "m", "format": "word", "operator": "addition"}


def asked(config, rule, wildcards, attempt=1):
    """Minutes that a rule's job asks for, as Snakemake computes it."""
    seconds = partial(job_costs.expected_seconds, config)
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
