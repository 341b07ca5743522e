"""Groups of formats, operators or wordings that are compared; a table joins the names of a group by +."""

from collections.abc import Iterable, Sequence
from itertools import combinations

import pandas as pd

VARIANT = "~"
"""Between the name of a format and the number of a variant: symbolic~1 is the first variant of symbolic."""


def groups_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All names together, then every pair if there are more than two names."""
    return [tuple(names), *(combinations(names, 2) if len(names) > 2 else [])]


def joined(names: Iterable[str]) -> str:
    """The group's name in a table."""
    return "+".join(names)


def of_all_formats(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table that compare all formats (column formats)."""
    compared = table["formats"].str.count(r"\+")
    return table[compared == compared.max()]
