"""Floating-point operations in one cell (`workflow.job_costs`)."""

from typing import TYPE_CHECKING

from form_invariance.experiment.neuron_sets import MATCHED

if TYPE_CHECKING:
    from form_invariance.workflow.cell_sizes import CellSizes


def _dose(cell: "CellSizes") -> float:
    config = cell.config
    operators, formats, draws = len(config["operators"]), len(config["formats"]), config["matched_seeds"]
    # Rankings, also by halves of both kinds except others' best kept alone; controls; parts of the best.
    others = (operators - 1) * (formats - 1)
    ranked = 5 * (operators + formats + others) + 5 * (1 + formats) + others
    sets = ranked + len(MATCHED) * draws * (operators + 2) + 5 * draws + 10
    return len(cell.dose_sizes) * sets * config["eval_prompts"] * cell.size.late_token


OPERATIONS = {"dose": _dose}
