"""The options that say which grid of operand pairs an operator has."""

import argparse
from typing import TYPE_CHECKING

from form_invariance.stages.options import OPERANDS, add_optional, add_options, add_required

if TYPE_CHECKING:
    from form_invariance.stages.heuristics.pairs import Grid


def add_grid_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    add_options(parser, "--expression")
    parser.add_argument("--digit", type=int, help="this digit of the answer is asked, 0 = the leading one")
    add_optional(parser, *OPERANDS)
    add_required(parser, int, max_operand="operands of the grid are below it")


def grid_of(arguments: argparse.Namespace) -> "Grid":
    """The grid that the options name.

    Raises:
        UserError: it has no pair, or a digit comes without a limit.
    """
    from form_invariance.stages.heuristics.pairs import make_digit_grid, make_grid
    from form_invariance.stages.task_options import arithmetic_of

    if arguments.digit is None:
        return make_grid(arguments.expression, arguments.max_operand)
    return make_digit_grid(arithmetic_of(arguments), arguments.max_operand)
