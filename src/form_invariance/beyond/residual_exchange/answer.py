"""Do the formats meet in one layer, and does another format's state do as well there?"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from form_invariance.beyond.residual_exchange.table import (
    COPIED,
    HEADS,
    MEET,
    OPERATOR,
    RESIDUAL_CONTRASTS,
    RESIDUAL_LAYERS,
    RESIDUAL_SHARES,
    SERVED,
    TOGETHER,
)
from form_invariance.experiment.answers import FIXED, Answer, percent
from form_invariance.experiment.contrasts.questions import QUESTIONS, SERVES
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.stages.overlap.chance import expected_jaccard, one_region
from form_invariance.tables.columns import ALL

INPUTS = {
    "heads": HEADS,
    "residual_shares": RESIDUAL_SHARES,
    "residual_layers": RESIDUAL_LAYERS,
    "residual_contrasts": RESIDUAL_CONTRASTS,
}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The layers of every pair of formats, and the contrast there."""
    layers, contrasts = tables["residual_layers"], tables["residual_contrasts"]
    met, served = (contrasts[contrasts["question"] == name].drop(columns="question") for name in (MEET, SERVED))
    pooled, compared = (overall(rows).iloc[0] for rows in (met, served))
    pairs = layers[(layers["quantity"] == "meets") & (layers["donor_format"] != layers["target_format"])]
    where = [
        f"{operator} {_span(rows)}"
        for operator, rows in pairs.groupby("operator", sort=False)["value"]
        if rows.notna().any()
    ]
    first = (
        f"A donor of another format decides the answer as often as one of the own format (at least {SERVES:.0%}) "
        f"from these layers on: {'; '.join(where) or 'none'}. Within one layer of each other, "
        f"over all operators and pairs of formats: {pooled['verdict']}; within each operator: "
        + ", ".join(f"{row.operator} {row.verdict}" for row in met[met["operator"] != ALL].itertuples())
        + f".{of_heads(tables['heads'])}"
    )
    second = (
        "Where the own format's state first decides at least half of the answers, another format's state decides "
        f"{percent(compared['first'])}, the own one's {percent(compared['second'] / SERVES)}. Difference from "
        f"{SERVES:.0%} of the latter: {percent(compared['difference'])} [{percent(compared['low'])}, "
        f"{percent(compared['high'])}]: {compared['verdict']}.{_others(tables['residual_shares'], pairs)} "
        f"{FIXED.capitalize()}."
    )
    return [
        Answer(QUESTIONS[MEET].label, first, layers, ("residual_exchange",)),
        Answer(QUESTIONS[SERVED].label, second, served, ("residual_exchange",)),
    ]


def _others(shares: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """What donors that copy, and those of other operators, decide in the last layer where formats meet."""
    last = pairs.groupby("operator")["value"].max()
    there = shares[shares["layer"] == shares["operator"].map(last)].groupby("donor")["donor_answer"].mean()
    names = {COPIED: "donors that copied their answer", OPERATOR: "donors of another operator"}
    said = [f"{name} {percent(there[kind])}" for kind, name in names.items() if kind in there]
    return f" Where the formats have met, {' and '.join(said)}." if said else ""


def of_heads(heads: pd.DataFrame) -> str:
    """How many heads bring the answer where it arrives, and whether they are the same in all formats; a sentence.

    Args:
        heads: with the column operator.
    """
    said = []
    for operator, rows in heads[heads["from_arrival"] == 0].groupby("operator", sort=False):
        count, own = rows["head"].nunique(), rows["donor_format"] == rows["target_format"]
        every = (rows["rank"] == count) & (rows["exchanged"] == TOGETHER)
        together, other = (rows.loc[every & kind, "donor_answer"].mean() for kind in (own, ~own))
        sets = rows[own & rows["member"]].groupby("target_format")["head"].agg(set)
        text = (
            f"{operator}: those of layer {rows['layer'].iloc[0]} together {percent(together)} "
            f"(of another format {percent(other)}), "
            f"{_span(sets.map(len))} of {count} do {SERVES:.0%} of this"
        )
        if len(sets) > 1:
            pairs = list(combinations(sets, 2))
            jaccard = np.mean([len(one & other) / len(one | other) for one, other in pairs])
            chance = np.mean(
                [expected_jaccard((len(one), len(other)), one_region(2, count)) for one, other in pairs]
            )
            text += f", Jaccard of two formats' sets {jaccard:.2f} (chance {chance:.2f})"
        said.append(text)
    where = "; ".join(said)
    return f" The donor's heads alone, where its state arrives, decide: {where}." if said else ""


def _span(layers: pd.Series) -> str:
    """The first and the last layer, or the only one."""
    low, high = layers.min(), layers.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
