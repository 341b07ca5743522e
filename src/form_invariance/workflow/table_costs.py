"""What a job without a model costs, before it has ever run, if it may take more than a minute."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from form_invariance.stages.heuristics.names import BASELINES, MAPS, MODES, MOST_BASELINES, SCALE_MAPS
from form_invariance.workflow.cell_sizes import size_of

A_MAP, A_PAIR = 3e-3, 1.1e-7
"""Assumed seconds of a core to label a neuron by its two maps: for the maps, and for each of their pairs."""
A_RANDOM_MAP, A_RANDOM_PAIR, A_PERMUTATION = 3e-4, 7e-8, 5e-8
"""The same of a random map, and for a permuted set of families."""
MOST_PROCESSES = 8


def table_seconds(config: Mapping[str, Any], model: str) -> dict[str, float]:
    """Assumed seconds of a core of every rule without a model whose jobs may take more than a minute.

    Args:
        model: its name in the configuration; a job of all models is of none.
    """
    models = config["models"]
    size = replace(size_of(models.get(model, next(iter(models.values())))), late_from=config["late_from"])
    pairs, shared = config["heuristic_max_operand"] ** 2, config["k_shown"] / 2 * size.late
    # The shared neurons' activations are labelled once more when shuffled.
    maps = 2 * shared + len(BASELINES) * min(shared, MOST_BASELINES)
    sets = maps * len(config["formats"]) * len(MODES)
    return {
        "heuristics": maps * (A_MAP + A_PAIR * pairs),
        "agreement": sets * 6 * config["permutations"] * A_PERMUTATION,
        "heuristic_null": (SCALE_MAPS + MAPS) * (A_RANDOM_MAP + A_RANDOM_PAIR * pairs),
    }


def labelling_processes(config: Mapping[str, Any], model: str) -> int:
    """Processes of a job that labels neurons: one for each of its minutes."""
    return max(1, min(MOST_PROCESSES, int(table_seconds(config, model)["heuristics"] // 60)))
