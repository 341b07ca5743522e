"""The verdicts on one model: each question by its effect, its strongest control and an interval over cells."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.interventions.contrasts import EVERY_CELL
from form_invariance.stages.overlap.table import all_formats
from form_invariance.stages.specificity.table import ALL, OTHER_OPERATORS
from form_invariance.stages.summary.table import FEWEST_PAIRS, QUESTIONS, VERDICTS
from form_invariance.stages.transfer.names import EVERY
from form_invariance.stages.verdicts import with_verdicts
from form_invariance.statistics import Z95

_ABLATED = {"keep_only": "sufficient", "knockout": "necessary"}
_MOVED = {"matched_minus_same_answer": ("beyond_the_answer", "same answer"), "imposed": ("imposed", "none")}
"""Question and control of a contrast of transfer."""

_OWN = {"own_minus_other": "accuracy", "own_minus_other_beyond_control": "accuracy beyond control"}
"""The metric that a contrast of specificity is told as."""


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
    """The Jaccard of all formats compared with chance, over operators."""
    for k, rows in all_formats(overlap).groupby("k"):
        own = rows.dropna(subset=["jaccard", "low"])
        row: dict[str, object] = {"k": k, "cells": len(own), "control": "chance"}
        row |= {"value": own["jaccard"].mean(), "control_value": own["chance"].mean()}
        low = high = float("nan")
        if len(own):
            # Limits are cut at 0 and 1, so the wider side tells the standard error.
            half = pd.concat([own["high"] - own["jaccard"], own["jaccard"] - own["low"]], axis=1).max(axis=1)
            beyond = (own["jaccard"] - own["chance"]).to_numpy()
            low, high = noisy_mean(beyond, half.to_numpy() / Z95, resamples, seed)
        yield {"question": "same", "metric": "jaccard", **row, "low": low, "high": high}


def _ablated(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Keep-only and knockout, by every metric."""
    rows = contrasts[contrasts["format"] == EVERY_CELL]
    return rows.assign(question=rows["intervention"].map(_ABLATED), value=rows["circuit"], control="strongest")


def _transferred(contrasts: pd.DataFrame) -> pd.DataFrame:
    """What a matched donor adds to the answer, and how often a mismatched one imposes its own."""
    rows = contrasts[(contrasts["operator"] == EVERY) & contrasts["contrast"].isin(_MOVED)]
    question, control = (
        rows["contrast"].map({name: both[part] for name, both in _MOVED.items()}) for part in (0, 1)
    )
    rows = rows.drop(columns="control").rename(columns={"value": "difference"})
    rows = rows.assign(question=question, control=control, metric="rate")
    rows = rows.rename(columns={"first": "value", "second": "control_value"})
    # The bootstrap of one or two pairs has no width, and would say yes or no.
    measured = ["value", "control_value", "difference", "low", "high"]
    rows.loc[rows["pairs"] < FEWEST_PAIRS, measured] = np.nan
    return rows


def _specific(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Damage to the own operator compared with the others, as it is, and beyond the strongest control's."""
    rows = contrasts[
        (contrasts["format"] == ALL)
        & (contrasts["intervention"] == "knockout")
        & contrasts["contrast"].isin(_OWN)
        & (contrasts["task"] == OTHER_OPERATORS)
        & (contrasts["metric"] == "accuracy")
    ]
    rows = rows.assign(question="specific", metric=rows["contrast"].map(_OWN), control="other operators")
    return rows.rename(columns={"first": "value", "second": "control_value"})


def verdicts_table(tables: Mapping[str, pd.DataFrame], resamples: int, seed: int) -> pd.DataFrame:
    """The verdicts table of one model.

    Args:
        tables: overlap (of every operator), intervention_contrasts, transfer_contrasts, specificity_contrasts.
        resamples: of the bootstrap over operators.
    """
    found = pd.concat(
        [
            pd.DataFrame(_same(tables["overlap"], resamples, seed)).assign(
                difference=lambda rows: rows["value"] - rows["control_value"]
            ),
            _ablated(tables["intervention_contrasts"]),
            _transferred(tables["transfer_contrasts"]),
            _specific(tables["specificity_contrasts"]),
        ],
        ignore_index=True,
    )
    place = found["question"].map(list(QUESTIONS).index)
    found = with_verdicts(found).assign(place=place).sort_values(["place", "metric", "k"], ignore_index=True)
    return found[list(VERDICTS.columns)]
