"""The numbers that the paper prints, as data."""

from pathlib import Path

import pandas as pd

NUMBERS = Path(__file__).parent / "numbers.csv"


def read_numbers() -> pd.DataFrame:
    """Every figure of the paper's tables.

    Returns:
        Columns table (its LaTeX label), model, format, operator, family, column, printed (as in the paper),
        value (float64; a bound where the paper prints one).
    """
    return pd.read_csv(NUMBERS, keep_default_na=False).astype({"value": "float64"})
