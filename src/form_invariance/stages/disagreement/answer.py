"""What is the formats' disagreement made of?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.contrasts import verdict
from form_invariance.stages.disagreement.table import ALL, DISAGREEMENT, FORMAT_CORRELATION, RELIABLE, pooled, wide
from form_invariance.tables.inputs import Input

INPUTS = {"disagreement": Input(DISAGREEMENT), "format_correlation": Input(FORMAT_CORRELATION)}
Rows = dict[Any, dict[Any, Any]]
QUESTION = "What is the formats' disagreement made of?"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Shares of the disagreement, whether formats differ beyond noise and beyond wording, and the correlation."""
    table = pooled(tables["disagreement"])
    mean: Rows = table[table["operator"] == ALL].set_index("component").to_dict("index")
    related = pooled(tables["format_correlation"])
    overall = related[(related["operator"] == ALL) & (related["formats"] == ALL)].iloc[0]
    size = mean["template"]
    sentence = (
        f"Of the variance of the difference between two formats' mean effects, {_share(mean, 'template')} is due "
        f"to format and wording ({percent(mean['scale']['share'])} to a mere difference of scale); the rest "
        f"is the noise of {size['prompts']} prompts and {size['draws']} draws of corrupt partners (mean over "
        f"operators). {_correlation(overall)} Do formats differ beyond noise? {_verdict(mean, 'template')}."
    )
    if not np.isnan(mean["wording"]["value"]):
        sentence += (
            f" Where paraphrases were measured, {_share(mean, 'format')} is due to the format and "
            f"{_share(mean, 'wording')} to the wording. Do formats differ beyond wording? "
            f"{_verdict(mean, 'format')}."
        )
    for ratio, opening, ending in (
        ("invariance", "Of the variance that belongs to an operator,", "is the same in all its formats"),
        ("generic", "All formats and operators share", "of the variance of the effects"),
    ):
        value, low, high = (mean[ratio][name] for name in ("value", "low", "high"))
        if not np.isnan(value):
            sentence += f" {opening} {_with_limits(value, low, high)} {ending}."
    shown = wide(table, "share").drop(columns="operator", errors="ignore").reset_index()
    corrected = related[related["formats"] == ALL].set_index("operator")["corrected"]
    shown["corrected correlation"] = shown["operator"].map(corrected)
    shares = ["template", "scale", "format", "wording", "draw", "prompt"]
    shown = shown[["operator", *shares, "corrected correlation"]].rename_axis(columns=None)
    return [Answer(QUESTION, sentence, shown, ("disagreement",))]


def _share(rows: Rows, component: str) -> str:
    value, low, high = (rows[component][name] for name in ("share", "share_low", "share_high"))
    return f"{_with_limits(value, low, high)}{' (unbiased, so it can be negative)' if value < 0 else ''}"


def _with_limits(value: float, low: float, high: float) -> str:
    """A share with its interval, if it has one."""
    return percent(value) + ("" if np.isnan(low) else f" [{percent(low)}, {percent(high)}]")


def _verdict(rows: Rows, component: str) -> str:
    return verdict(rows[component]["low"], rows[component]["high"]).capitalize()


def _correlation(row: pd.Series) -> str:
    if np.isnan(row["corrected"]):
        return (
            f"The correlation of two formats' effects is {row['pearson']:.2f}; corrected for reliability it is "
            f"undefined, because the reliability is below {RELIABLE}."
        )
    return (
        f"Corrected for reliability, the effects of two formats correlate by {row['corrected']:.2f} "
        f"[{row['low']:.2f}, {row['high']:.2f}] ({row['pearson']:.2f} before)."
    )
