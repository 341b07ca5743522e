"""Seconds of jobs that read tables alone and whose time grows with a key of the configuration.

The constants are seconds on one CPU core, measured on random tables.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from form_invariance.stages.heuristics.names import BASELINES, MODES
from form_invariance.workflow.config_check import measured_variants
from form_invariance.workflow.job_costs import Size, size_of

RANK, COMPARE = 2e-7, 1e-9
"""Of one candidate's rank in one resample, and of looking whether one neuron is in one set."""
CHANCE = 0.15
"""Of the chance level of four sets or more of one layer."""
SHUFFLE = 3e-7
"""Of one neuron's labels in one permutation."""
MAP, PAIR = 1e-3, 1.3e-7
"""Of one random map, and of each of its pairs of operands."""
MAPS = 15_000
"""Random maps of a grid."""


def _rankings(config: Mapping[str, Any], size: Size, cells: int, compared: int) -> float:
    """Seconds for resampled rankings of some cells, of which `compared` sets are looked at for each k."""
    ranked = RANK * cells * min(config["candidates"], size.d_mlp)
    return size.late * config["bootstrap"] * (ranked + COMPARE * compared * len(config["k"]) * size.d_mlp)


def _overlaps(config: Mapping[str, Any], size: Size, cells: int) -> float:
    """Seconds for the overlap of all cells and of every two."""
    chances = CHANCE * size.late * len(config["k"]) if cells > 3 else 0
    return _rankings(config, size, cells, cells**2) + chances


def _overlap(config: Mapping[str, Any], size: Size) -> float:
    return 2 * _overlaps(config, size, len(config["formats"]))


def _operator_overlap(config: Mapping[str, Any], size: Size) -> float:
    formats, operators = len(config["formats"]), len(config["operators"])
    halves = 2 * (formats * operators + 2 * len(measured_variants(config)))
    return formats * _overlaps(config, size, operators) + _rankings(config, size, halves, halves)


def _agreement(config: Mapping[str, Any], size: Size) -> float:
    tables = len(MODES) * (2 + len(BASELINES))
    neurons = config["k_shown"] / 2 * size.late
    return SHUFFLE * tables * config["permutations"] * neurons * len(config["formats"])


_SECONDS = {"overlap": _overlap, "operator_overlap": _operator_overlap, "agreement": _agreement}


def seconds(config: Mapping[str, Any], rule: str, wildcards: Mapping[str, str]) -> float:
    """Seconds that a job on tables is expected to take; 0 where only its start counts."""
    if rule == "heuristic_null":
        return MAPS * (MAP + PAIR * config["heuristic_max_operand"] ** 2)
    if rule not in _SECONDS:
        return 0.0
    size = replace(size_of(config["models"][wildcards["model"]]), late_from=config["late_from"])
    return _SECONDS[rule](config, size)
