"""What a Jaccard means: results on models whose shared part is known."""

import pandas as pd

from form_invariance.tables.columns import Schema, integer, number, text

CALIBRATION = Schema(
    "calibration",
    {
        "share": number("share of each format's planted neurons that serve every format, by construction"),
        "failures": text("where wrong answers arise: early (before the late layers) or late (in them)"),
        "seed": integer("seed of the model"),
        "k": integer("circuit size; a format has 16 planted neurons a layer. -1: of no size"),
        "measure": text(
            "jaccard (of all formats); chance, across_parts, ceiling (Jaccards, as in the overlap and reliability "
            "tables; ceiling: geometric mean of parts over formats); uncorrected (the shared part by the Jaccard "
            "alone); shared_part (corrected for chance and reliability); correlation (of effects, corrected for "
            "reliability); keep_only_METRIC, knockout_METRIC (circuit minus strongest control); "
            "exchange_METRIC (other formats' best neurons / own best, as in the verdicts); transfer (matched "
            "minus strongest control, of the wrong answers)"
        ),
        "value": number("the value; NaN: undefined"),
        "low": number("lower 95 % limit, where there is an interval"),
        "high": number("upper 95 % limit"),
        "truth": number("the value by construction, without noise; NaN: not known"),
        "covered": number("1: the interval contains the truth, 0: it does not; NaN: nothing to compare"),
    },
)

EARLY, LATE = "early", "late"


def coverage(table: pd.DataFrame, k: int | None = None) -> float:
    """How often the interval of the shared part contains the truth; k: at one circuit size alone."""
    rows = table[(table["measure"] == "shared_part") & ((table["k"] == k) | (k is None))]
    return float(rows["covered"].mean())
