"""Expected seconds of a job: on a GPU, and on one CPU core where that time grows with a key of the configuration.

The constants are seconds, measured on random tables and maps.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from form_invariance.stages.heuristics.names import BASELINES, MODES
from form_invariance.workflow.config_check import measured_variants
from form_invariance.workflow.job_costs import OPERATIONS, Size, operations, rate_of, reading_seconds, size_of
from form_invariance.workflow.job_sizes import kind

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
LABEL, LABEL_PAIR = 0.022, 7.5e-6
"""Of labelling a shared neuron and those that it is compared with, and of each pair of their maps."""


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


def _neurons(config: Mapping[str, Any], size: Size) -> float:
    """Shared neurons of an operator, as many as are likely."""
    return float(config["k_shown"]) / 2 * size.late


def _agreement(config: Mapping[str, Any], size: Size) -> float:
    tables = len(MODES) * (2 + len(BASELINES))
    return SHUFFLE * tables * config["permutations"] * _neurons(config, size) * len(config["formats"])


def _heuristics(config: Mapping[str, Any], size: Size) -> float:
    return _neurons(config, size) * (LABEL + LABEL_PAIR * config["heuristic_max_operand"] ** 2)


_SECONDS = {
    "overlap": _overlap,
    "operator_overlap": _operator_overlap,
    "agreement": _agreement,
    "heuristics": _heuristics,
}


def cpu_seconds(config: Mapping[str, Any], rule: str, wildcards: Mapping[str, str]) -> float:
    """Seconds that a job computes on a CPU core wherever its model runs; 0 where they do not matter."""
    if rule == "heuristic_null":
        return MAPS * (MAP + PAIR * config["heuristic_max_operand"] ** 2)
    if rule not in _SECONDS:
        return 0.0
    size = replace(size_of(config["models"][wildcards["model"]]), late_from=config["late_from"])
    return _SECONDS[rule](config, size)


def expected_seconds(config: Mapping[str, Any], rule: str, wildcards: Mapping[str, str]) -> float:
    """Assumed seconds of a job that runs a model on a cluster: on a GPU, unless the configuration says the CPU."""
    model = config["models"][wildcards["model"]]
    work = operations(rule, config, wildcards["model"], wildcards) if rule in OPERATIONS else 0
    on_gpu = work / rate_of(model, kind(model) == "gpu") + reading_seconds(model, rule)
    return on_gpu + cpu_seconds(config, rule, wildcards)
