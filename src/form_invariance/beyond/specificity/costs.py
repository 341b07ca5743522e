"""Floating-point operations in one cell (`workflow.job_costs`)."""

from typing import TYPE_CHECKING

from form_invariance.experiment.neuron_sets import MATCHED
from form_invariance.experiment.other_tasks import CONTEXT, MEANS, MOST, TRIED

if TYPE_CHECKING:
    from form_invariance.workflow.cell_sizes import CellSizes


def _specificity(cell: "CellSizes") -> float:
    # It runs once for each format, so each operator has a share of the tasks' prompts.
    config = cell.config
    others, sets = len(config.get("specificity_tasks") or {}), 10 + len(MATCHED) * config["matched_seeds"]
    prompts, size = max(MOST, config["eval_prompts"]), cell.size
    runs = len(cell.task_sizes) * (others + 1) * prompts * sets
    text = (TRIED / 2 + MEANS) * prompts * 2 * size.inside * CONTEXT
    passed = cell.passes(others * (1 + MEANS) * prompts) + text
    return runs * size.late_token + passed / len(config["operators"])


OPERATIONS = {"specificity": _specificity}
