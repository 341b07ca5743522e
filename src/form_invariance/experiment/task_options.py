"""The options that say what an operator asks: an expression with limits, or a table."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic, TableTask, Task


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OperandOptions:
    """The limits of operands and answers."""

    operand_min: int | None = None
    """smallest operand"""
    operand_max: int | None = None
    """largest operand"""
    answer_min: int | None = None
    """smallest answer"""
    answer_max: int | None = None
    """largest answer"""


NO_LIMITS = OperandOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What an operator asks."""

    expression: str | None = None
    """the operator's expression, for instance 'a // b'; it needs the four limits"""
    digit: int | None = None
    """ask this digit of the answer, 0 = the leading one"""
    limits: OperandOptions = NO_LIMITS
    table: Path | None = None
    """in place of an expression: CSV file with a column for each field, and one for the answer"""
    table_sha256: str | None = None
    """sha256 of --table; a file with another content is refused"""
    answer_column: str = "answer"
    """the table's column of answers; default: answer"""


NO_TASK = TaskOptions()


def limits_of(options: OperandOptions, needed_by: str) -> OperandRange:
    """The limits that the options name.

    Raises:
        UserError: one is missing.
    """
    limits = asdict(options)
    if missing := [name for name, value in limits.items() if value is None]:
        raise UserError(f"{needed_by} needs --{missing[0].replace('_', '-')}, a whole number")
    return OperandRange(**limits)


def task_of(options: TaskOptions) -> Task:
    """The task that the options name.

    Raises:
        UserError: neither an expression nor a table is given, or both, or an expression without a limit.
    """
    if (options.expression is None) == (options.table is None):
        raise UserError("give one of --expression and --table")
    if options.table is not None:
        return TableTask(options.table, options.answer_column, options.table_sha256)
    assert options.expression is not None
    return Arithmetic(options.expression, limits_of(options.limits, "--expression"), options.digit)


def recorded_arithmetic(provenance: Mapping[str, Any]) -> Arithmetic:
    """The arithmetic that the provenance of a census records (`task_provenance`)."""
    limits = OperandRange(**provenance["operands"])
    return Arithmetic(provenance["expression"], limits, provenance.get("digit"))


def task_provenance(options: TaskOptions) -> dict[str, Any]:
    """What a table records of the task, apart from the options."""
    if options.table is not None:
        return {"task_table": str(options.table), "answer_column": options.answer_column}
    return {"expression": options.expression, "operands": asdict(options.limits)}
