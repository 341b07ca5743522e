"""Where a model's tables lie, and what an answer to a question about them consists of."""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from form_invariance.tables.columns import Schema
from form_invariance.tables.files import read_tables


@dataclass(frozen=True)
class Answer:
    """One question, answered for one model."""

    question: str
    sentence: str
    table: pd.DataFrame
    figures: tuple[str, ...]
    """Names of its figures."""


@dataclass(frozen=True)
class Results:
    """Where one model's results lie, and what was run."""

    folder: Path  # results/MODEL
    formats: list[str]
    operators: list[str]
    k: int
    stages: frozenset[str] = frozenset()
    """Of heads, dose and audit those that ran; a question about another is not asked."""
    variant_operators: tuple[str, ...] = ()
    """Operators whose paraphrases were measured."""

    def cells(self, name: str, schema: Schema) -> dict[tuple[str, str], pd.DataFrame]:
        """A table of every (format, operator)."""
        paths = {
            (one, operator): self.folder / one / operator / f"{name}.parquet"
            for one in self.formats
            for operator in self.operators
        }
        return read_tables(paths, schema)

    def shared(self, name: str, schema: Schema) -> dict[str, pd.DataFrame]:
        """A table of every operator, over all formats."""
        paths = {operator: self.folder / "shared" / operator / f"{name}.parquet" for operator in self.operators}
        return read_tables(paths, schema)


def in_how_many(holds: pd.Series) -> str:
    """In how many of the rows something holds, in words."""
    part, whole = int(holds.sum()), len(holds)
    return f"in all {whole}" if part == whole else f"in {part or 'none'} of {whole}"


def percent(value: float) -> str:
    """A share in whole percent, never minus zero; `undefined` where there was nothing to take it of."""
    return "undefined" if math.isnan(value) else f"{round(value, 2) + 0.0:.0%}"
