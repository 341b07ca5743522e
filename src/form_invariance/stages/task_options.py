"""The options that say what an operator asks: an expression with limits, or a table."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from form_invariance.errors import UserError
from form_invariance.stages.options import OPERANDS, add_optional, operand_limits

if TYPE_CHECKING:
    from form_invariance.problems.tasks import Arithmetic, Task


def add_task_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--expression", help="of the operands, for instance 'a // b'; it needs the four limits")
    asked.add_argument("--table", type=Path, help="CSV file with a column for each field, and one for the answer")
    parser.add_argument("--table-sha256", help="sha256 of --table; a file with another content is refused")
    parser.add_argument("--digit", type=int, help="ask this digit of the answer, 0 = the leading one")
    parser.add_argument("--answer-column", default="answer", help="the table's column of answers")
    add_optional(parser, *OPERANDS)


def task_of(arguments: argparse.Namespace) -> "Task":
    """The task that the options name.

    Raises:
        UserError: an expression comes without a limit.
    """
    from form_invariance.problems.tasks import TableTask

    if arguments.table is not None:
        return TableTask(arguments.table, arguments.answer_column, arguments.table_sha256)
    return arithmetic_of(arguments)


def arithmetic_of(arguments: argparse.Namespace) -> "Arithmetic":
    """The expression that the options name, within limits, and the digit that is asked.

    Raises:
        UserError: a limit is missing.
    """
    from form_invariance.problems.operands import OperandRange
    from form_invariance.problems.tasks import Arithmetic

    limits = operand_limits(arguments)
    if missing := [name for name, value in limits.items() if value is None]:
        raise UserError(f"--expression needs --{missing[0].replace('_', '-')}, a whole number")
    return Arithmetic(arguments.expression, OperandRange(**limits), arguments.digit)


def recorded_arithmetic(provenance: Mapping[str, Any]) -> "Arithmetic":
    """The expression, within limits, and the digit that the provenance of a census tells (`task_provenance`)."""
    from form_invariance.problems.operands import OperandRange
    from form_invariance.problems.tasks import Arithmetic

    limits = OperandRange(**provenance["operands"])
    return Arithmetic(provenance["expression"], limits, provenance.get("digit"))


def task_provenance(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a table records of the task."""
    if arguments.table is not None:
        return {"table": str(arguments.table), "answer_column": arguments.answer_column}
    asked = {} if arguments.digit is None else {"digit": arguments.digit}
    return {"expression": arguments.expression, "operands": operand_limits(arguments), **asked}
