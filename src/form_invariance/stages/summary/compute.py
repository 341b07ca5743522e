"""The verdicts on one model: each question by its effect, its strongest control and an interval over cells.

Each question is a row for all operators, and a row for each of them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.overlap.table import BOTH, FORMAT, OPERATORS_OWN, OVERLAPS, all_formats
from form_invariance.stages.questions import QUESTIONS
from form_invariance.stages.specificity.table import (
    ALL,
    BEYOND,
    EXCHANGED,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
)
from form_invariance.stages.summary.table import BEYOND_OPERATOR, FEWEST_PAIRS, SERVES, VERDICTS
from form_invariance.stages.verdicts import MIXED, with_verdicts
from form_invariance.statistics import Z95

_ABLATED = {"keep_only": "sufficient", "knockout": "necessary"}
MEANS = ["value", "control_value", "difference"]
_MOVED = {
    "matched_minus_baseline": ("repaired", "strongest"),
    "matched_minus_same_answer": ("beyond_the_answer", "same answer"),
    "imposed": ("imposed", "permuted donors"),
    "interchange": ("interchange", "permuted donors"),
}
"""Question and control of a contrast of transfer."""

_OWN = {(OTHER_CIRCUITS, OWN): "accuracy", (BEYOND, OTHER_OPERATORS): "accuracy beyond control"}
"""The metric that a contrast of specificity on a task is told as."""


def noisy_mean(values: np.ndarray, errors: np.ndarray, resamples: int, seed: int) -> tuple[float, float]:
    """A 95 % interval of the mean over cells whose values have standard errors.

    The bootstrap of two stages where the prompts of a cell are not at hand: cells are drawn with replacement, and
    each drawn cell's value has normal noise of its standard error.

    Args:
        values: (cells,).
        errors: standard errors, (cells,).
    """
    rng = generator(seed, "verdicts")
    drawn = rng.integers(len(values), size=(resamples, len(values)))
    means = (values[drawn] + errors[drawn] * rng.normal(size=drawn.shape)).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _same(overlap: pd.DataFrame, resamples: int, seed: int) -> Iterator[dict[str, object]]:
    """The Jaccard of all formats compared with chance, over operators and of each."""
    names = {"question": "same", "metric": "jaccard", "control": "chance"}
    for k, rows in all_formats(overlap).groupby("k"):
        # Limits are cut at 0 and 1, so the wider side tells the standard error.
        half = pd.concat([rows["high"] - rows["jaccard"], rows["jaccard"] - rows["low"]], axis=1).max(axis=1)
        beyond = rows["jaccard"] - rows["chance"]
        every = rows.assign(value=rows["jaccard"], control_value=rows["chance"], k=k, cells=1, **names)
        every = every.assign(difference=beyond, low=beyond - half, high=beyond + half)
        yield from ({str(name): value for name, value in row.items()} for row in every.to_dict("records"))
        known = half.notna()
        row = {"k": k, "cells": known.sum(), "operator": ALL, "difference": beyond[known].mean()}
        row |= {"value": rows["jaccard"][known].mean(), "control_value": rows["chance"][known].mean()}
        low = high = float("nan")
        if known.any():
            errors = half[known].to_numpy() / Z95
            low, high = noisy_mean(beyond[known].to_numpy(), errors, resamples, seed)
        yield {**names, **row, "low": low, "high": high}


def _operators_own(differing: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The Jaccard of two formats of one operator compared with that of two operators in two formats."""
    for k, rows in differing.groupby("k"):
        beyond = rows[rows["quantity"] == OPERATORS_OWN]
        whole = rows[(rows["quantity"] == OVERLAPS) & (rows["operators"] == "all")].set_index("differs")
        for row in beyond.to_dict("records"):
            pair = {"value": whole["value"][FORMAT], "control_value": whole["value"][BOTH]}
            found = {"difference": row["value"], "low": row["low"], "high": row["high"]}
            names = {"question": "same", "metric": BEYOND_OPERATOR, "control": "another operator"}
            yield {"k": k, "operator": ALL, "cells": whole["pairs"][FORMAT], **names, **pair, **found}


def _ablated(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Keep-only and knockout, by every metric."""
    question = contrasts["intervention"].map(_ABLATED)
    return contrasts.assign(question=question, value=contrasts["circuit"], control="strongest")


def _transferred(contrasts: pd.DataFrame) -> pd.DataFrame:
    """What a matched donor repairs and adds to the answer, and how often a mismatched one imposes its own."""
    rows = contrasts[contrasts["contrast"].isin(_MOVED)]
    question, control = (
        rows["contrast"].map({name: both[part] for name, both in _MOVED.items()}) for part in (0, 1)
    )
    rows = rows.drop(columns="control").rename(columns={"value": "difference"})
    rows = rows.assign(question=question, control=control, metric="rate")
    rows = rows.rename(columns={"first": "value", "second": "control_value"})
    # The bootstrap of one or two pairs has no width, and would say yes or no.
    measured = ["value", "control_value", "difference", "low", "high"]
    pairs = rows.groupby(["question", "k", "operator"])["pairs"].transform("sum")
    rows.loc[pairs < FEWEST_PAIRS, measured] = np.nan
    return rows


def _exchanged(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Damage by the other formats' best neurons as a share of the damage by the format's own, minus `SERVES`."""
    rows = contrasts[
        (contrasts["intervention"] == "knockout")
        & (contrasts["contrast"] == EXCHANGED)
        & (contrasts["metric"] == "accuracy")
    ]
    limits = {"difference": "ratio", "low": "ratio_low", "high": "ratio_high"}
    rows = rows.assign(**{name: rows[ratio] - SERVES for name, ratio in limits.items()})
    rows = rows.assign(question="exchange", control="own best")
    return rows.rename(columns={"first": "value", "second": "control_value"})


def _specific(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Damage by the operator's circuit compared with that by the others', and with its own to other operators.

    The second is beyond the strongest control's, since some operators are more fragile than others.
    """
    rows = contrasts[(contrasts["intervention"] == "knockout") & (contrasts["metric"] == "accuracy")]
    told = pd.Series(zip(rows["contrast"], rows["task"], strict=True), index=rows.index, dtype=object).map(_OWN)
    rows = rows.assign(question="specific", metric=told, control="other operators").dropna(subset="metric")
    return rows.rename(columns={"first": "value", "second": "control_value"})


def _of_operators(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean over each operator's cells, which are fixed: the interval is normal, with their standard errors."""
    cells = rows[rows["operator"] != ALL]
    known = cells["difference"].notna() & cells["low"].notna()
    error = (cells["high"] - cells["low"]) / (2 * Z95)
    groups = cells.assign(known=known, variance=(error**2).where(known)).groupby(
        ["question", "metric", "k", "operator", "control"], sort=False
    )
    found = groups.agg({"known": "sum", "variance": "sum", **dict.fromkeys(MEANS, "mean")}).reset_index()
    half = Z95 * np.sqrt(found["variance"]) / found["known"].where(found["known"] > 0)
    limits = {"low": found["difference"] - half, "high": found["difference"] + half}
    return found.assign(**limits).rename(columns={"known": "cells"})


def _mixed(found: pd.DataFrame) -> pd.Series:
    """The verdicts; `mixed` over all operators where it is yes for an operator and no for another."""
    keys = [found[name] for name in ("question", "metric", "k")]
    of_operator = found["verdict"].where(found["operator"] != ALL)
    both = [of_operator.eq(word).groupby(keys).transform("any") for word in ("yes", "no")]
    return found["verdict"].mask((found["operator"] == ALL) & both[0] & both[1], MIXED)


def verdicts_table(tables: Mapping[str, pd.DataFrame], resamples: int, seed: int) -> pd.DataFrame:
    """The verdicts table of one model.

    Args:
        tables: overlap (of every operator), differing, and the contrasts of interventions, transfer and
            specificity.
        resamples: of the bootstrap over operators.
    """
    same = [*_same(tables["overlap"], resamples, seed), *_operators_own(tables["differing"])]
    parts = [
        _ablated(tables["intervention_contrasts"]),
        _transferred(tables["transfer_contrasts"]),
        _exchanged(tables["specificity_contrasts"]),
        _specific(tables["specificity_contrasts"]),
    ]
    pooled = [part[part["operator"] == ALL] for part in parts]
    found = pd.concat([pd.DataFrame(same), *pooled, *map(_of_operators, parts)], ignore_index=True)
    place = found["question"].map(list(QUESTIONS).index)
    found = with_verdicts(found).assign(place=place, others=found["operator"] != ALL)
    found = found.assign(verdict=_mixed(found))
    order = ["place", "metric", "k", "others"]
    return found.sort_values(order, ignore_index=True, kind="stable")[list(VERDICTS.columns)]
