"""What does this Jaccard mean?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.calibration.estimate import estimate, overlap_at
from form_invariance.stages.calibration.table import CALIBRATION, coverage
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY, all_formats
from form_invariance.tables.inputs import Input

INPUTS = {
    "overlap": Input(OVERLAP, ("operator",)),
    "reliability": Input(RELIABILITY, ("operator",)),
    "calibration": Input(CALIBRATION),
}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The Jaccard as the share of each format's members that all formats have in common, with its interval."""
    every, again = all_formats(tables["overlap"]), tables["reliability"]
    rows = []
    for _, row in every[every["k"] == k].iterrows():
        reliability = again[(again["operator"] == row["operator"]) & (again["k"] == k)]
        measured = overlap_at(row, reliability)
        rows.append((row["operator"], row["jaccard"], row["chance"], measured.within[0], *estimate(measured)))
    columns = ["operator", "Jaccard", "chance", "ceiling by parts", "shared part", "low", "high"]
    table = pd.DataFrame(rows, columns=columns)
    return [Answer("What does this Jaccard mean?", _sentence(table, tables["calibration"], k), table)]


def _sentence(table: pd.DataFrame, calibration: pd.DataFrame, k: int) -> str:
    known = table.dropna(subset=["shared part"])
    if known.empty:
        return (
            f"The Jaccard at k = {k} cannot be read as a shared part: parts of one format's prompts do not "
            "rank the same neurons more often than chance, or no set has a member."
        )
    means = known[["Jaccard", "shared part", "low", "high"]].mean()
    part, low, high = (percent(means[name]) for name in ("shared part", "low", "high"))
    missing = f" ({len(table) - len(known)} operators are undefined)" if len(known) < len(table) else ""
    return (
        f"A Jaccard of {means['Jaccard']:.2f} at k = {k} corresponds to a shared part of {part} [{low}, {high}] "
        "of each format's members, corrected for chance and for how unreliably prompts rank neurons (mean over "
        f"operators of the value and of its 95 % limits{missing}). In constructed models that share a known "
        f"part, such an interval contains it in {percent(coverage(calibration))} of the cases; that of the "
        f"Jaccard alone, without correction, in {percent(_uncorrected(calibration))}. Neurons that only some of "
        "the formats have in common make the value too high."
    )


def _uncorrected(calibration: pd.DataFrame) -> float:
    return float(calibration.loc[calibration["measure"] == "uncorrected", "covered"].mean())
