"""Sizes of an experiment: numbers of prompts and candidates that the right answers allow, and its time."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.experiment.membership import most_shown
from form_invariance.stages.dataset.compute import Choice
from form_invariance.stages.dataset.preflight import FEWEST_PROMPTS, check, check_left, preflight_table
from form_invariance.workflow import job_costs, machine

Settings = dict[str, Any]
"""Values of the configuration by key."""

Censuses = Mapping[tuple[str, str], tuple[pd.DataFrame, str]]
"""The census of a whole table and its template, by (format, operator)."""

_KEYS = (
    *("train_prompts", "eval_prompts", "probe_prompts", "heuristic_max_operand"),
    *("mean_cache_prompts", "transfer_pairs", "corrupt_seeds", "random_seeds"),
)
_STEPS = (
    (8, 12, 80, 20, 60, 20, 1, 4),
    (12, 16, 100, 20, 80, 30, 1, 4),
    (16, 24, 120, 30, 96, 40, 1, 4),
    (24, 32, 200, 40, 120, 60, 1, 5),
    (32, 40, 400, 50, 200, 100, 2, 5),
    (48, 64, 1000, 50, 300, 200, 2, 5),
    (64, 80, 1500, 80, 600, 400, 3, 5),
    (100, 100, 2500, 100, 1000, 600, 3, 5),
)
"""Values of `_KEYS`, from the quickest experiment to the default one.

Controls have 4 draws at least: with one operator, an interval reaches 3.6 standard deviations of the draws to each
side with 4 draws, and 15.6 with 2 (`noise.half_of`).
"""
CANDIDATES = (2000, 1000, 500, 300, 200, 120, 80, 50)
"""Candidates of a layer, from the default experiment to the quickest one."""
_K = (5, 10, 20, 50, 100, 150, 200)
_SHOWN = 50
"""The k that is shown, unless the candidates are too few for it."""
_PAIRS = 200
"""Smallest number of pairs of a census."""
_STARTING = 5
"""Assumed seconds in which a job starts on one machine."""
_SPARE = 8
"""Rows of a table that are left for the means that replace ablated activations."""


def steps(problems: float, right: float) -> list[Settings]:
    """The numbers of prompts that a model's right answers allow, the quickest experiment first.

    Args:
        problems: number of problems of the operator with the fewest; infinite for tables, which `of_tables` fits.
        right: share of right answers in the worst cell.
    """
    allowed_steps: list[Settings] = []
    for step in _STEPS:
        settings: Settings = dict(zip(_KEYS, step, strict=True))
        prompts = settings["train_prompts"] + settings["eval_prompts"]
        if allowed_steps and 2.8 * prompts > problems * right:
            break
        # The splits are drawn before, and an operand pair counts in one order only.
        settings["census_pairs"] = max(_PAIRS, int(-(-3 * prompts // max(right, 0.1))))
        settings["matched_seeds"] = settings["random_seeds"]
        allowed_steps.append(settings)
    return allowed_steps


def circuits(candidates: int, few: bool = False) -> Settings:
    """The number of candidates, and sizes of circuits: all, or if `few` the smallest, shown and largest."""
    most = most_shown(candidates)
    shown = max((k for k in _K if k <= min(most, _SHOWN)), default=most)
    circuit_sizes = sorted({shown, *(k for k in _K if k <= candidates)})
    return {
        "candidates": candidates,
        "k_shown": shown,
        "k": sorted({circuit_sizes[0], shown, circuit_sizes[-1]}) if few else circuit_sizes,
    }


def seconds(config: Mapping[str, Any], model: str, rate: float) -> float:
    """Estimated seconds of a run on this machine, from the costs that `plan` assumes for each job.

    Args:
        model: its name in the configuration.
        rate: operations per second of the whole machine.
    """
    settings = config["models"][model]
    numbers = any("table" not in operator for operator in config["operators"].values())
    left_out = {"row_activations"} if numbers else {"activation_maps", "family_knockout"}
    if settings.get("dtype", "float32") == "float32":
        left_out.add("precision")
    work = sum(
        job_costs.operations(rule, config, model, {}) for rule in job_costs.OPERATIONS if rule not in left_out
    )
    operators = len(config["operators"])
    cells = len(config["formats"]) * operators
    jobs = {"heuristics": cells, "agreement": operators, "heuristic_null": operators} if numbers else {}
    each = job_costs.table_seconds(config, model)
    tables = sum(count * each[rule] for rule, count in jobs.items())
    # Jobs of each cell: census, patching, exchange; of each operator: heuristics, heads, probes.
    loads = 3 * cells + 3 * operators + 12
    start = job_costs.reading_seconds(settings) - job_costs.STARTING + _STARTING
    return work / rate + (loads * start + tables) / machine.cores()


def machine_rate(model: Mapping[str, Any], on_gpu: bool) -> float:
    """Operations per second of this whole machine with a model of the configuration, as `plan` assumes them."""
    return job_costs.rate_of(model, on_gpu) * (1 if on_gpu else machine.cores())


def of_tables(sizes: Settings, censuses: Censuses, seed: int) -> Settings:
    """The sizes with the most train and eval prompts that the rows with right answers allow.

    Args:
        censuses: those that the run will take, if `census_pairs` is the number of rows.
    """

    def choice(prompts: int) -> Choice:
        return Choice(prompts, prompts, sizes["corrupt_seeds"], seed)

    def leaves_some(prompts: int) -> bool:
        try:
            check_left(censuses, choice(prompts))
        except UserError:
            return False
        return True

    tables = [table for table, _ in censuses.values()]
    most = min(min(int(table["correct"].sum()), len(table) - _SPARE) for table in tables) // 2
    most = max(min(sizes["train_prompts"], most), FEWEST_PROMPTS)
    fits = int(preflight_table(censuses, choice(most))["all_fit"].iloc[0])
    prompts = next(filter(leaves_some, range(fits, FEWEST_PROMPTS, -1)), FEWEST_PROMPTS)
    check(preflight_table(censuses, choice(prompts)), choice(prompts), censuses)
    check_left(censuses, choice(prompts))
    return {
        **sizes,
        "train_prompts": prompts,
        "eval_prompts": prompts,
        "census_pairs": max(map(len, tables)),
    }
