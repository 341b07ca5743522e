"""Summaries of the probe table: accuracy by layer, its peak, and the onset layer (paper, section 4.1)."""

from dataclasses import dataclass

import pandas as pd

from form_invariance.tables.columns import ALL

ONSET_ACCURACY = 0.5


@dataclass(frozen=True)
class Peak:
    """The best layer, its accuracy, and the first layer with an accuracy above `ONSET_ACCURACY`, if any."""

    accuracy: float
    layer: int
    onset: int | None


def curve(table: pd.DataFrame, operator: str = ALL) -> pd.DataFrame:
    """The rows of probes at the last token that are tested on their training formats, by layer."""
    mask = (table["operator"] == operator) & (table["position"] == 0) & (table["trained"] == table["tested"])
    return table[mask].sort_values("layer")


def of_all_formats(across: pd.DataFrame) -> pd.DataFrame:
    """The rows of probes that all formats train together, from a probe table over all formats."""
    return across[across["trained"].str.contains("+", regex=False)]


def peak(rows: pd.DataFrame) -> Peak:
    """Peak and onset of a `curve`; the first of equally good layers."""
    best = rows.iloc[rows["accuracy"].to_numpy().argmax()]
    above = rows.loc[rows["accuracy"] > ONSET_ACCURACY, "layer"]
    return Peak(float(best["accuracy"]), int(best["layer"]), int(above.min()) if len(above) else None)
