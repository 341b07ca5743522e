"""The options that say which grid of operand pairs an operator has."""

from dataclasses import dataclass

from cyclopts import Parameter

from form_invariance.experiment.task_options import NO_LIMITS, OperandOptions


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
