"""The parts of a table's schema: columns with a type and a meaning."""

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal["int64", "float64", "bool", "string"]


@dataclass(frozen=True)
class Column:
    """Type and meaning of one column."""

    type: ColumnType
    meaning: str


@dataclass(frozen=True)
class Schema:
    """Name and columns of one kind of table, in order.

    Attributes:
        keys: names of the columns that identify the whole table (`tables.keys`); they come first in the file.
        by_size: in lineages, the rows of each circuit size k count as a file, because tables may differ in sizes.
    """

    name: str
    columns: dict[str, Column]
    keys: tuple[str, ...] = ()
    by_size: bool = False


CELL = ("model", "format", "operator")
"""The keys of a table of one cell."""
ALL = "all"
"""In place of the name of a format, operator or direction: all of them together."""


def integer(meaning: str) -> Column:
    """A column of whole numbers."""
    return Column("int64", meaning)


def number(meaning: str) -> Column:
    """A column of floating-point numbers."""
    return Column("float64", meaning)


def flag(meaning: str) -> Column:
    """A column of truth values."""
    return Column("bool", meaning)


def text(meaning: str) -> Column:
    """A column of text."""
    return Column("string", meaning)


EVERY_LAYER = -1
"""The value of `layer` in rows over all late layers."""

PROBLEM = {
    "a": integer("first operand; of a table, the number of the row, from 0"),
    "b": integer("second operand; of a table, -1"),
    "answer": integer("right answer; of a table, the number of the distinct answer, from 0"),
    "target": text("text of the right answer, or of the digit that is asked"),
    "answer_token": integer("the target's token id; of a table, that of the answer's first token"),
    "fields": text("text of the template's fields, as JSON"),
    "digit": integer("digit of the answer that is asked, 0 = the leading one; -1: the whole answer, or a table"),
    "carry": integer("carry or borrow into this digit; -1 where it is not known"),
    "prompt": text("the prompt, without BOS"),
}
WHOLE_CORRECT = flag("correct; if a digit is asked: every digit of the answer is, each after the true ones")
NEURON = {"layer": integer("layer, from 0"), "neuron": integer("MLP neuron within its layer, from 0")}
COMPARED_SETS = {
    "members": integer("members of the smallest of the compared sets (at most k a layer)"),
    "positive": integer("members with a positive effect, in the set that has the fewest"),
    "intersection": integer("neurons that are members of all sets"),
    "union": integer("neurons that are members of any set"),
    "jaccard": number("intersection / union; NaN where no set has a member"),
    "chance": number("expected Jaccard of random sets of the same sizes: the larger of the next two"),
    "chance_neurons": number("the same, of random neurons of the layer"),
    "chance_candidates": number(
        "the same, of random candidates of each set's cell: only candidates can be members"
    ),
    "chance_spread": number("standard deviation of the Jaccard of random candidates"),
    "candidates": integer("fewest candidates of a compared cell; in layer -1 also the fewest over layers"),
    "low": number("lower 95 % limit: normal, with a bootstrap's standard error over prompts; NaN for one layer"),
    "high": number("upper 95 % limit; NaN for one layer"),
}
