"""The cost of a job that never ran: floating-point operations and weights to read, or seconds on tables.

A quantity that is known only after an earlier stage (numbers of shared neurons, of pairs that can be transferred)
has its largest likely value.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.neuron_sets import CONTROLS
from form_invariance.problems.configured import copies
from form_invariance.stage_folders import parts
from form_invariance.stages.heuristics.names import BASELINES, MAPS, MODES, MOST_BASELINES, SCALE_MAPS
from form_invariance.workflow import machine
from form_invariance.workflow.cell_sizes import CellSizes, grid_pairs, size_of, tokens_of
from form_invariance.workflow.job_sizes import kind, parameters

FLOP_RATES = {"float32": 40e12, "tf32": 200e12, "bfloat16": 400e12}
"""Assumed floating-point operations per second of a GPU: about half of the peak of an H200."""
BYTES = {"float32": 4, "tf32": 4, "bfloat16": 2}
READING = 1e9
"""Assumed bytes of weights that a job reads per second."""
ACTIVATIONS = 1
"""Assumed gigabytes of GPU memory beyond the weights."""
STARTING = 20
"""Assumed seconds in which a job imports its libraries."""
GROUPED = 4
"""Cells of a stage and model that one job of a cluster runs one after another (workflow/profiles/slurm)."""
FORKING, CACHED = 3, 5e9
"""The same for the group's other cells: seconds to start, and bytes of weights per second, now in main memory."""
A_MAP, A_PAIR = 3e-3, 1.1e-7
"""Assumed seconds of a core to label a neuron by its two maps: a constant, and for each pair of operands."""
A_RANDOM_MAP, A_RANDOM_PAIR, A_PERMUTATION = 3e-4, 7e-8, 5e-8
"""The same for a random map, and seconds for a permuted set of families."""
MOST_PROCESSES = 8


def _census(cell: CellSizes) -> float:
    pairs = cell.problems("census_pairs")
    return cell.passes(pairs) + pairs * cell.size.unembedding


def _grid(cell: CellSizes) -> float:
    # Prompts with the same first operand share their tokens up to the second operand.
    pairs = grid_pairs(cell.task, cell.config["heuristic_max_operand"])
    return pairs * 2 * cell.size.inside * cell.tokens_from(cell.template.rfind("{"))


def _probe(cell: CellSizes) -> float:
    prompts, operators = cell.problems("probe_prompts"), len(cell.config["operators"])
    return cell.passes(prompts) + cell.fits(prompts * operators, cell.tokens) / operators


def _probe_across(cell: CellSizes) -> float:
    prompts, operators = cell.problems("probe_prompts"), len(cell.config["operators"])
    passed = cell.passes(prompts / len(cell.config["formats"]))
    return passed + cell.fits(prompts * operators, 1) / operators


def _patching(cell: CellSizes) -> float:
    return cell.patches(cell.config["train_prompts"], cell.config["corrupt_seeds"])


def _controls(config: Mapping[str, Any]) -> int:
    """Number of neuron sets of one circuit size: the circuit, its two halves of the prompts, and controls."""
    seeds = ("matched_seeds" if control.matched_by else "random_seeds" for control in CONTROLS.values())
    return 3 + sum(int(config[name]) for name in seeds)


def _interventions(cell: CellSizes) -> float:
    config, size = cell.config, cell.size
    runs = len(INTERVENED) * len(config["k"]) * (_controls(config) + 2) * config["eval_prompts"]
    # The text that all prompts share runs once for each set.
    tokens = cell.tokens + tokens_of(cell.template[: cell.template.find("{")]) / config["eval_prompts"]
    everywhere = 2 * size.inside * (size.late - 1) / size.layers * tokens + size.unembedding
    return runs * (everywhere + size.late_token)


def _transfer(cell: CellSizes) -> float:
    config = cell.config
    copying = any(map(copies, config.get("specificity_tasks", {}).values()))
    # Six conditions also exist with circuits by halves, and six more with copying donors.
    conditions = len(config["k"]) * (_controls(config) + 6 + 6 * copying) + 10
    pairs = config["transfer_pairs"] * (len(config["formats"]) - 1)
    # Passes of the target, its donor, and donors of other conditions, which must answer before they are used.
    return cell.passes((4 + copying) * pairs) + pairs * conditions * cell.size.late_token


GROUPED_RULES = (
    *("census", "probe", "attribution", "patching", "mean_cache", "interventions", "neuron_effects"),
    *("row_activations", "transfer", "activation_maps", "precision", "residual_exchange", "dose"),
)
"""Rules whose cells a job of a cluster runs in groups."""

OPERATIONS: dict[str, Callable[[CellSizes], float]] = {
    "census": _census,
    "probe": _probe,
    "probe_across": _probe_across,
    # Clean prompts also run backwards, which takes twice as long.
    "attribution": lambda cell: 4 * cell.passes(cell.config["train_prompts"]),
    "patching": _patching,
    "mean_cache": lambda cell: cell.passes(cell.config["mean_cache_prompts"] / len(cell.config["operators"])),
    "interventions": _interventions,
    "transfer": _transfer,
    "activation_maps": _grid,
}
"""Floating-point operations of every rule that runs a model, in one cell. A stage of `beyond` adds its own."""
for _module in parts("costs").values():
    OPERATIONS |= import_module(f"form_invariance.{_module}").OPERATIONS


def operations(rule: str, config: Mapping[str, Any], model: str, wildcards: Mapping[str, str]) -> float:
    """Operations of a job, summed over the cells that match its wildcards."""
    size = replace(size_of(config["models"][model]), late_from=config["late_from"])
    formats = [wildcards["format"]] if "format" in wildcards else list(config["formats"])
    operators = [wildcards["operator"]] if "operator" in wildcards else list(config["operators"])
    cells = [CellSizes(config, size, form, operator) for form in formats for operator in operators]
    return sum(OPERATIONS[rule](cell) for cell in cells)


def rate_of(model: Mapping[str, Any], on_gpu: bool) -> float:
    """Assumed operations per second of a job that runs a model of the configuration."""
    return FLOP_RATES[model.get("dtype", "float32")] if on_gpu else machine.cpu_rate()


def reading_seconds(model: Mapping[str, Any], rule: str = "", *, on_gpu: bool = True) -> float:
    """Assumed seconds in which a job starts and reads a model's weights; the mean over the cells of a group.

    Jobs on this machine's CPU, except the first, start from a process that has imported the libraries.
    """
    weights = parameters(model) * BYTES[model.get("dtype", "float32")]
    first, next_ones = STARTING + weights / READING, FORKING + weights / CACHED
    if not on_gpu:
        return next_ones
    return (first + (GROUPED - 1) * next_ones) / GROUPED if rule in GROUPED_RULES else first


def expected_seconds(config: Mapping[str, Any], rule: str, wildcards: Mapping[str, str]) -> float:
    """Assumed seconds of a job that runs a model on a cluster, on a GPU unless the model's `device` is cpu."""
    model = config["models"][wildcards["model"]]
    work = operations(rule, config, wildcards["model"], wildcards) if rule in OPERATIONS else 0
    return work / rate_of(model, kind(model) == "gpu") + reading_seconds(model, rule)


def gpu_gigabytes(model: Mapping[str, Any], config: Mapping[str, Any]) -> float:
    """GPU memory in GB of a model's largest job: activations and weights, in float32 if that is compared."""
    dtype = model.get("dtype", "float32")
    size = BYTES["float32" if config["precision_prompts"] else dtype]
    return parameters(model) * size / 1e9 + ACTIVATIONS


def table_seconds(config: Mapping[str, Any], model: str) -> dict[str, float]:
    """Assumed seconds of a core, by rule, of jobs that run no model and may take more than a minute.

    Args:
        model: its name in the configuration; a job for all models, with another name, has the first model's size.
    """
    models = config["models"]
    size = replace(size_of(models.get(model, next(iter(models.values())))), late_from=config["late_from"])
    pairs, shared = config["heuristic_max_operand"] ** 2, config["k_shown"] / 2 * size.late
    # The shared neurons are labelled again with shuffled activations.
    maps = 2 * shared + len(BASELINES) * min(shared, MOST_BASELINES)
    sets = maps * len(config["formats"]) * len(MODES)
    return {
        "heuristics": maps * (A_MAP + A_PAIR * pairs),
        "agreement": sets * 6 * config["permutations"] * A_PERMUTATION,
        "heuristic_null": (SCALE_MAPS + MAPS) * (A_RANDOM_MAP + A_RANDOM_PAIR * pairs),
    }


def labelling_processes(config: Mapping[str, Any], model: str) -> int:
    """Processes of a job that labels neurons: one for each minute that it takes on one core."""
    return max(1, min(MOST_PROCESSES, int(table_seconds(config, model)["heuristics"] // 60)))
