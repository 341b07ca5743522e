"""Floating-point operations in one cell (`workflow.job_costs`)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from form_invariance.workflow.cell_sizes import CellSizes


def _neuron_effects(cell: "CellSizes") -> float:
    neurons = cell.config["k_shown"] / 2 * cell.size.late
    return neurons * cell.config["eval_prompts"] * cell.size.late_token


def _promoted_tokens(cell: "CellSizes") -> float:
    # It runs once for each model and operator, so each format has a share.
    return cell.config["k_shown"] / 2 * cell.size.late * cell.size.unembedding / len(cell.config["formats"])


OPERATIONS = {
    "neuron_effects": _neuron_effects,
    "promoted_tokens": _promoted_tokens,
    "row_activations": lambda cell: cell.passes(cell.problems("census_pairs")),
}
