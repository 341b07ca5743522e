"""What the probes' table says in short: accuracy by layer, its peak, and the onset layer (paper, section 4.1)."""

from dataclasses import dataclass

import pandas as pd

from form_invariance.tables.columns import ALL

ONSET_ACCURACY = 0.5


@dataclass(frozen=True)
class Peak:
    """The last token's best layer, and the first one where the answer is decodable."""

    accuracy: float
    layer: int
    onset: int | None  # None: no layer's accuracy is above one half


def curve(table: pd.DataFrame, operator: str = ALL) -> pd.DataFrame:
    """Rows of the probes at the last token that are tested on the formats they were trained on, by layer."""
    mask = (table["operator"] == operator) & (table["position"] == 0) & (table["trained"] == table["tested"])
    return table[mask].sort_values("layer")


def of_all_formats(across: pd.DataFrame) -> pd.DataFrame:
    """Of a probe table over all formats, the probes that all of them train together."""
    return across[across["trained"].str.contains("+", regex=False)]


def peak(rows: pd.DataFrame) -> Peak:
    """Peak and onset of one probe's curve; of equally good layers the first."""
    best = rows.iloc[rows["accuracy"].to_numpy().argmax()]
    above = rows.loc[rows["accuracy"] > ONSET_ACCURACY, "layer"]
    return Peak(float(best["accuracy"]), int(best["layer"]), int(above.min()) if len(above) else None)
