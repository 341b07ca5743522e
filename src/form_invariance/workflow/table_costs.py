"""What a job without a model costs, before it has ever run, if it may take more than a minute."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from form_invariance.stages.heuristics.names import BASELINES, MAPS, MODES, MOST_BASELINES, SCALE_MAPS
from form_invariance.workflow.cell_sizes import Size, size_of

A_MAP, A_PAIR = 3e-3, 1.1e-7
"""Assumed seconds of a core to label a neuron by its two maps: for the maps, and for each of their pairs."""
A_RANDOM_MAP, A_RANDOM_PAIR, A_PERMUTATION = 3e-4, 7e-8, 5e-8
"""The same of a random map, and for a permuted set of families."""
MOST_PROCESSES = 8


def _shared(config: Mapping[str, Any], size: Size) -> float:
    return float(config["k_shown"] / 2 * size.late)


def _maps(config: Mapping[str, Any], size: Size) -> float:
    # The shared neurons' activations are labelled once more when shuffled.
    shared = _shared(config, size)
    return 2 * shared + len(BASELINES) * min(shared, MOST_BASELINES)


def _heuristics(config: Mapping[str, Any], size: Size) -> float:
    return _maps(config, size) * (A_MAP + A_PAIR * config["heuristic_max_operand"] ** 2)


def _agreement(config: Mapping[str, Any], size: Size) -> float:
    sets = _maps(config, size) * len(config["formats"]) * len(MODES)
    return sets * 6 * config["permutations"] * A_PERMUTATION


def _heuristic_null(config: Mapping[str, Any], size: Size) -> float:
    return (SCALE_MAPS + MAPS) * (A_RANDOM_MAP + A_RANDOM_PAIR * config["heuristic_max_operand"] ** 2)


TABLES: dict[str, Callable[[Mapping[str, Any], Size], float]] = {
    "heuristics": _heuristics,
    "agreement": _agreement,
    "heuristic_null": _heuristic_null,
}
"""Seconds of a core of a job of every rule without a model whose jobs may take more than a minute."""


def table_seconds(rule: str, config: Mapping[str, Any], model: str) -> float:
    """Assumed seconds of a core of a job of `TABLES`; a job of all models is of none."""
    models = config["models"]
    size = size_of(models.get(model, next(iter(models.values()))))
    return TABLES[rule](config, replace(size, late_from=config["late_from"]))


def labelling_processes(config: Mapping[str, Any], model: str) -> int:
    """Processes of a job that labels neurons: one for each of its minutes."""
    return max(1, min(MOST_PROCESSES, int(table_seconds("heuristics", config, model) // 60)))
