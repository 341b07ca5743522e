"""The verdicts on one model: each question by its effect, its strongest control and an interval.

Each question is a row for all operators, and a row for each of them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import verdict
from form_invariance.experiment.contrasts.questions import BEYOND_OPERATOR, JACCARD, NOTHING_OWN, QUESTIONS
from form_invariance.experiment.contrasts.verdicts import asked, with_mixed
from form_invariance.stages.overlap.table import BOTH, FORMAT, INVARIANCE, OPERATORS_OWN, OVERLAPS, all_formats
from form_invariance.tables.columns import ALL
from form_invariance.verdicts.summary.table import VERDICTS


def _same(overlap: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The Jaccard of all formats compared with chance, over operators and of each."""
    names = {"question": "same", "metric": JACCARD, "control": QUESTIONS["same"].parts[JACCARD].control}
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
            control = QUESTIONS["same"].parts[BEYOND_OPERATOR].control
            names = {"question": "same", "metric": BEYOND_OPERATOR, "control": control}
            yield {"k": k, "operator": row["operators"], **names, **pair, **found}


def _exchanged(contrasts: pd.DataFrame, ks: np.ndarray) -> pd.DataFrame:
    """What an exchange of the residual stream answers, which has no k, for each k."""
    parts = {name: next(iter(QUESTIONS[name].parts.items())) for name in contrasts["question"].unique()}
    named = contrasts.assign(
        metric=contrasts["question"].map({name: metric for name, (metric, _) in parts.items()}),
        control=contrasts["question"].map({name: part.control for name, (_, part) in parts.items()}),
    )
    return named.merge(pd.DataFrame({"k": ks}), how="cross")


def verdicts_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The verdicts table of one model.

    Args:
        tables: overlap (of every operator), differing, contrasts, and those of the residual stream.
    """
    same = pd.DataFrame([*_same(tables["overlap"]), *_operators_own(tables["differing"])])
    said = pd.Series([*map(verdict, same["low"], same["high"])], dtype=object)
    # With one operator there is no invariance.
    none = (said == "undecided") & (same.reindex(columns=["most"])["most"] < NOTHING_OWN)
    same = same.assign(limit_error=0.0, prompts=0, verdict=said.mask(none, "no"))
    contrasts = tables["contrasts"]
    exchanged = _exchanged(tables["residual_contrasts"], same["k"].unique())
    parts = pd.concat([*asked(contrasts[contrasts["format"] == ALL]), exchanged[exchanged["format"] == ALL]])
    parts = parts.rename(columns={"first": "value", "second": "control_value"})
    table = pd.concat([same, parts], ignore_index=True)
    place = table["question"].map(list(QUESTIONS).index)
    table = table.assign(place=place, others=table["operator"] != ALL)
    table["at_k"] = table["at_k"].fillna(table["k"]).astype("int64")
    table = with_mixed(table[[*VERDICTS.columns, "place", "others"]])
    order = ["place", "metric", "k", "others"]
    return table.sort_values(order, ignore_index=True, kind="stable")[list(VERDICTS.columns)]
