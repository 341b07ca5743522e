"""Floating-point operations in one cell (`workflow.job_costs`)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from form_invariance.workflow.cell_sizes import CellSizes


def _residual_exchange(cell: "CellSizes") -> float:
    config, size = cell.config, cell.size
    # Donors of each format, of another operator and of a copying task; donors that repair half of the targets.
    donors = len(config["formats"]) + 2 + (len(config["formats"]) - 1) / 2
    # The state is exchanged after each layer, and on average half of the layers run after it.
    moved = size.layers * (size.inside + size.unembedding)
    return config["eval_prompts"] * donors * moved + cell.passes((donors + 1) * config["eval_prompts"])


def _head_exchange(cell: "CellSizes") -> float:
    config, size = cell.config, cell.size
    donors = config["eval_prompts"] * len(config["formats"])
    # Each head is exchanged alone and, on half of the prompts, with all better heads. A head has 64 dimensions.
    runs = 1.5 * size.d_model / 64
    # The last third of the layers runs. Each prompt also runs as a target and, once for each operator, as a donor.
    return donors * runs * (size.inside * 2 / 3 + size.unembedding) + cell.passes(2 * config["eval_prompts"])


def _arrival_probes(cell: "CellSizes") -> float:
    # Probes read two points of each layer, and have about seven targets.
    prompts = cell.problems("probe_prompts")
    return cell.passes(prompts) + cell.fits(prompts, 2 * 7)


OPERATIONS = {
    "residual_exchange": _residual_exchange,
    "head_exchange": _head_exchange,
    "arrival_probes": _arrival_probes,
}
