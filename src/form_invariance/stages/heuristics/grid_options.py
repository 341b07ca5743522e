"""The options that say which grid of operand pairs an operator has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from form_invariance.experiment.task_options import NO_LIMITS, OperandOptions, limits_of

if TYPE_CHECKING:
    from form_invariance.stages.heuristics.pairs import Grid


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """A grid of operand pairs."""

    expression: str
    """the operator's expression, for instance 'a // b'"""
    digit: int | None = None
    """this digit of the answer is asked, 0 = the leading one"""
    limits: OperandOptions = NO_LIMITS
    max_operand: int
    """operands of the grid are below it"""


def grid_of(options: GridOptions) -> "Grid":
    """The grid that the options name.

    Raises:
        UserError: it has no pair, or a digit comes without a limit.
    """
    from form_invariance.problems.tasks import Arithmetic
    from form_invariance.stages.heuristics.pairs import make_digit_grid, make_grid

    if options.digit is None:
        return make_grid(options.expression, options.max_operand)
    limits = limits_of(options.limits, "--digit")
    return make_digit_grid(Arithmetic(options.expression, limits, options.digit), options.max_operand)
