"""Floating-point operations in one cell (`workflow.job_costs`)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from form_invariance.workflow.cell_sizes import CellSizes


def _family_knockout(cell: "CellSizes") -> float:
    # Three kinds of neurons, about five families, two sets for each.
    prompts = 4 * cell.config["eval_prompts"]
    return 2 * cell.passes(prompts) + 3 * 5 * 2 * prompts * cell.size.late_token


OPERATIONS = {"family_knockout": _family_knockout}
