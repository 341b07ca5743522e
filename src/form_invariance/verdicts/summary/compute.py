"""The verdicts on one model: each question by its effect, its strongest control and an interval.

Each question is a row for all operators, and a row for each of them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from form_invariance.beyond.residual_exchange.table import MEET, SERVED
from form_invariance.beyond.specificity.verdicts import ratios, specific
from form_invariance.experiment.contrasts import ALL, verdict
from form_invariance.experiment.intervention_kinds import ASKED
from form_invariance.experiment.questions import NOTHING_OWN, QUESTIONS, SERVES
from form_invariance.experiment.verdicts import FEWEST_PAIRS, RATE, with_mixed
from form_invariance.stages.overlap.table import BOTH, FORMAT, INVARIANCE, OPERATORS_OWN, OVERLAPS, all_formats
from form_invariance.verdicts.summary.table import BEYOND_OPERATOR, COPIED, VERDICTS

_MOVED = {
    "matched_minus_baseline": ("repaired", RATE, "strongest"),
    "matched_minus_same_answer": ("beyond_the_answer", RATE, "same answer"),
    "matched_minus_copied_answer": ("beyond_the_answer", f"{RATE} beyond copied", COPIED),
    "imposed": ("imposed", RATE, "permuted donors"),
    "interchange": ("interchange", RATE, "permuted donors"),
    "interchange_minus_copied": ("interchange", "beyond copied", COPIED),
}
"""Question, metric and control of a contrast of transfer."""

_EXCHANGED = {MEET: ("layers", "distance"), SERVED: (RATE, f"{SERVES} own format")}
"""Metric and control of a contrast of the residual stream, by its question."""


def _same(overlap: pd.DataFrame) -> Iterator[dict[str, object]]:
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
        difference = beyond[known].mean()
        row = {"k": k, "cells": known.sum(), "operator": ALL, "difference": difference}
        row |= {"value": rows["jaccard"][known].mean(), "control_value": rows["chance"][known].mean()}
        # The operators are fixed, and their prompts are drawn independently.
        spread = np.sqrt((half[known] ** 2).sum()) / known.sum() if known.any() else float("nan")
        yield {**names, **row, "low": difference - spread, "high": difference + spread}


def _operators_own(differing: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The Jaccard of two formats of one operator compared with that of two operators in two formats."""
    for k, rows in differing.groupby("k"):
        most = rows[rows["quantity"] == INVARIANCE].set_index("operators")["high"]
        overlaps = rows[rows["quantity"] == OVERLAPS].set_index(["differs", "operators"])
        for row in rows[rows["quantity"] == OPERATORS_OWN].to_dict("records"):
            own, other = (overlaps.loc[(differs, row["operators"])] for differs in (FORMAT, BOTH))
            pair = {"value": own["value"], "control_value": other["value"], "cells": own["pairs"]}
            found = {"difference": row["value"], "low": row["low"], "high": row["high"]}
            found["most"] = most.get(row["operators"], np.nan)
            names = {"question": "same", "metric": BEYOND_OPERATOR, "control": "another operator"}
            yield {"k": k, "operator": row["operators"], **names, **pair, **found}


def _ablated(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The interventions that decide a question, by every metric."""
    table = contrasts.assign(question=contrasts["intervention"].map(ASKED), control="strongest")
    return table.dropna(subset="question")


def _transferred(contrasts: pd.DataFrame) -> pd.DataFrame:
    """What a matched donor repairs and adds to the answer, and how often a mismatched one imposes its own."""
    rows = contrasts[contrasts["contrast"].isin(_MOVED)]
    names = pd.DataFrame(list(rows["contrast"].map(_MOVED)), rows.index, ["question", "metric", "control"])
    rows = rows.drop(columns="control").join(names)
    # The bootstrap of one or two pairs has no width, and would say yes or no.
    few = rows["prompts"] < FEWEST_PAIRS
    rows.loc[few, ["first", "second", "difference", "low", "high"]] = np.nan
    rows = rows.assign(verdict=rows["verdict"].mask(few, "undefined"))
    # Many models cannot copy, or are not asked to; then the other rows decide.
    return rows[(rows["control"] != COPIED) | (rows["verdict"] != "undefined")]


def _exchanged(contrasts: pd.DataFrame, ks: np.ndarray) -> pd.DataFrame:
    """What an exchange of the residual stream answers, which has no k, for each k."""
    names = pd.DataFrame(list(contrasts["question"].map(_EXCHANGED)), contrasts.index, ["metric", "control"])
    return contrasts.drop(columns="control").join(names).merge(pd.DataFrame({"k": ks}), how="cross")


def verdicts_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The verdicts table of one model.

    Args:
        tables: overlap (of every operator), differing, and the contrasts of interventions, transfer,
            specificity and the residual stream.
    """
    same = pd.DataFrame([*_same(tables["overlap"]), *_operators_own(tables["differing"])])
    said = pd.Series([*map(verdict, same["low"], same["high"])], dtype=object)
    # With one operator there is no invariance.
    none = (said == "undecided") & (same.reindex(columns=["most"])["most"] < NOTHING_OWN)
    same = same.assign(limit_error=0.0, prompts=0, verdict=said.mask(none, "no"))
    parts = [
        _ablated(tables["intervention_contrasts"]),
        _transferred(tables["transfer_contrasts"]),
        ratios(tables["specificity_contrasts"]),
        specific(tables["specificity_contrasts"]),
        _exchanged(tables["residual_contrasts"], same["k"].unique()),
    ]
    # The rows over formats, or over directions.
    rows = [part[part["direction" if "direction" in part else "format"] == ALL] for part in parts]
    names = {"first": "value", "second": "control_value"}
    table = pd.concat([same, *(part.rename(columns=names) for part in rows)], ignore_index=True)
    place = table["question"].map(list(QUESTIONS).index)
    table = table.assign(place=place, others=table["operator"] != ALL)
    table = with_mixed(table[[*VERDICTS.columns, "place", "others"]])
    order = ["place", "metric", "k", "others"]
    return table.sort_values(order, ignore_index=True, kind="stable")[list(VERDICTS.columns)]
