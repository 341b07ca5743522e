"""The verdicts on one model: each question by its effect, its strongest control and an interval.

Each question is a row for all operators, and a row for each of them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import verdict
from form_invariance.experiment.contrasts.questions import BEYOND_OPERATOR, JACCARD, NOTHING_OWN, QUESTIONS
from form_invariance.experiment.contrasts.verdicts import question_rows, with_mixed
from form_invariance.stages.overlap.table import (
    BOTH,
    FORMAT,
    INVARIANCE,
    OPERATORS_OWN,
    OVERLAPS,
    all_formats,
    beyond_chance,
    half_interval,
    nothing_claimed,
)
from form_invariance.tables.columns import ALL
from form_invariance.verdicts.summary.table import VERDICTS


def _same(overlap: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The Jaccard of all formats compared with chance, for each operator and over all."""
    names = {"question": "same", "metric": JACCARD, "control": QUESTIONS["same"].parts[JACCARD].control}
    for k, rows in all_formats(overlap).groupby("k"):
        with_interval = rows[half_interval(rows).notna()]
        mean = with_interval[["jaccard", "chance", "chance_spread"]].mean()
        # The operators are fixed, and their prompts are drawn independently; but their candidates may be the same.
        half = np.sqrt((half_interval(with_interval) ** 2).sum()) / (len(with_interval) or np.nan)
        limits = {"low": mean["jaccard"] - half, "high": mean["jaccard"] + half}
        all_operators = pd.DataFrame([{**mean, **limits, "operator": ALL, "cells": len(with_interval)}])
        rows = pd.concat([rows.assign(cells=1), all_operators], ignore_index=True)
        rows = rows.assign(value=rows["jaccard"], control_value=rows["chance"], k=k, **names)
        yield rows.assign(**beyond_chance(rows))


def _operators_own(differing: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The Jaccard of two formats of one operator compared with that of two operators in two formats."""
    for k, rows in differing.groupby("k"):
        most = rows[rows["quantity"] == INVARIANCE].set_index("operators")["high"]
        overlaps = rows[rows["quantity"] == OVERLAPS].set_index(["differs", "operators"])
        for row in rows[rows["quantity"] == OPERATORS_OWN].to_dict("records"):
            same_operator, other_operator = (
                overlaps.loc[(differs, row["operators"])] for differs in (FORMAT, BOTH)
            )
            yield {
                "question": "same",
                "metric": BEYOND_OPERATOR,
                "operator": row["operators"],
                "k": k,
                "cells": same_operator["pairs"],
                "value": same_operator["value"],
                "control": QUESTIONS["same"].parts[BEYOND_OPERATOR].control,
                "control_value": other_operator["value"],
                "difference": row["value"],
                "low": row["low"],
                "high": row["high"],
                "most": most.get(row["operators"], np.nan),
            }


def _exchanged(contrasts: pd.DataFrame, ks: np.ndarray) -> pd.DataFrame:
    """The contrasts of the residual stream, which have no k, repeated for each k."""
    parts = {name: next(iter(QUESTIONS[name].parts.items())) for name in contrasts["question"].unique()}
    named = contrasts.assign(
        metric=contrasts["question"].map({name: metric for name, (metric, _) in parts.items()}),
        control=contrasts["question"].map({name: part.control for name, (_, part) in parts.items()}),
    )
    return named.merge(pd.DataFrame({"k": ks}), how="cross")


def verdicts_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The verdicts table of one model.

    Args:
        tables: overlap (of every operator), differing, contrasts and perhaps residual_contrasts, by name.
    """
    same = pd.concat(
        [*_same(tables["overlap"]), pd.DataFrame(_operators_own(tables["differing"]))], ignore_index=True
    )
    said = pd.Series([*map(verdict, same["low"], same["high"])], dtype=object)
    # With one operator there is no invariance, so the column `most` is missing.
    none = (said == "undecided") & (same.reindex(columns=["most"])["most"] < NOTHING_OWN)
    fewest = all_formats(tables["overlap"]).groupby("k")["candidates"].min()
    notes = same["k"].map(lambda k: nothing_claimed(k, fewest[k]))
    said = said.mask(none, "no").mask(notes.ne("") & said.ne("undefined"), "undecided")
    same = same.assign(limit_error=0.0, prompts=0, verdict=said, note=notes)
    decided = [*question_rows(tables["contrasts"])]
    if "residual_contrasts" in tables:
        decided.append(_exchanged(tables["residual_contrasts"], same["k"].unique()))
    parts = pd.concat(decided)
    parts = parts[parts["format"] == ALL].rename(columns={"first": "value", "second": "control_value"})
    table = pd.concat([same, parts.assign(note="")], ignore_index=True)
    table = table.assign(place=table["question"].map(list(QUESTIONS).index), others=table["operator"] != ALL)
    table["at_k"] = table["at_k"].fillna(table["k"]).astype("int64")
    table = with_mixed(table[[*VERDICTS.columns, "place", "others"]])
    order = ["place", "metric", "k", "others"]
    return table.sort_values(order, ignore_index=True, kind="stable")[list(VERDICTS.columns)]
