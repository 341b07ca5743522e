"""Floating-point operations in one cell (`workflow.job_costs`)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from form_invariance.workflow.cell_sizes import CellSizes


def _engine_check(cell: "CellSizes") -> float:
    # Each format has one operator, two prompts, and four rows in each layer of its share of the late layers.
    formats, operators = (len(cell.config[name]) for name in ("formats", "operators"))
    return cell.passes(2 * 7 + 4 * cell.size.late / formats) / operators


OPERATIONS = {"engine_check": _engine_check}
