"""The rule of verdicts: from the contrasts of a question to its word."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import verdict
from form_invariance.experiment.contrasts.entries import PRIMARY, RATE
from form_invariance.experiment.contrasts.questions import QUESTIONS, SMALLEST, Part
from form_invariance.tables.columns import ALL

MIXED = "mixed"
"""The verdict on several operators of which it is yes for some and no for others."""

TINY = "yes, tiny"
"""A yes whose difference is too small to be of interest."""

FEWEST_PAIRS = 10
"""Of transfer: with fewer in all cells together a verdict is undefined."""

_LEAST_FIRST = ("no", "undefined", MIXED, "undecided", TINY, "yes")
_CONTRAST = ("question", "intervention", "contrast", "task", "metric", "neurons", "family", "k")
"""The columns, as far as a table has them, that tell one contrast from another."""


def rows_of(part: Part, contrasts: pd.DataFrame) -> pd.DataFrame:
    """The rows of a contrast of a question, with the differences, limits and verdicts that decide it."""
    asked = {"contrast": part.contrast, "intervention": part.intervention, "metric": part.of}
    rows = contrasts[(contrasts[[*asked]] == pd.Series(asked)).all(axis=1)].assign(control=part.control)
    if part.margin:
        ratios = {"difference": "ratio", "low": "ratio_low", "high": "ratio_high"}
        rows = rows.assign(**{name: rows[ratio] - part.margin for name, ratio in ratios.items()})
        rows = rows.assign(limit_error=rows["ratio_error"])
        rows["verdict"] = list(map(verdict, rows["low"], rows["high"], rows["limit_error"]))
    if part.of == RATE:
        # The bootstrap of one or two pairs has no width, and would say yes or no.
        few = rows["prompts"] < FEWEST_PAIRS
        rows.loc[few, ["first", "second", "difference", "low", "high"]] = np.nan
        rows.loc[few, "verdict"] = "undefined"
    return rows[rows["verdict"] != "undefined"] if part.optional else rows


def asked(contrasts: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of every question that contrasts decide, with the columns question and metric of verdicts."""
    for name, question in QUESTIONS.items():
        for metric, part in question.parts.items():
            if part.contrast:
                yield rows_of(part, contrasts).assign(question=name, metric=metric)


def worded(verdict: str, difference: float) -> str:
    """A verdict as texts say it."""
    return TINY if verdict == "yes" and difference < SMALLEST else verdict


def with_mixed(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts whose verdicts over all operators are `mixed` where an operator's is yes and another's is no."""
    over = contrasts["format"] == ALL if "format" in contrasts else True
    keys = [contrasts[name] for name in _CONTRAST if name in contrasts]
    pooled = contrasts["operator"] == ALL
    of_operator = contrasts["verdict"].where(over & ~pooled)
    yes, no = (of_operator.eq(word).groupby(keys).transform("any") for word in ("yes", "no"))
    return contrasts.assign(verdict=contrasts["verdict"].mask(over & pooled & yes & no, MIXED))


def in_words(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts with the verdicts that the report's first table says of them: mixed, or tiny, too.

    A difference of other metrics than accuracies, probabilities and rates is never tiny.
    """
    mixed = with_mixed(contrasts)
    words = [worded(*row) for row in zip(mixed["verdict"], mixed["difference"], strict=True)]
    others = ~mixed["metric"].isin(["accuracy", PRIMARY, RATE])
    return mixed.assign(verdict=pd.Series(words, mixed.index, object).mask(others, mixed["verdict"]))


def deciding(contrasts: pd.DataFrame) -> pd.Series:
    """Of several contrasts, with verdicts: the one that favours the circuit least."""
    placed = contrasts.assign(place=contrasts["verdict"].map(_LEAST_FIRST.index))
    return placed.sort_values(["place", "low"], kind="stable").drop(columns="place").iloc[0]
