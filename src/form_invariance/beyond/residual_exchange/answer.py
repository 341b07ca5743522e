"""Do the formats meet in one layer, and does another format's state do as well there?"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from form_invariance.beyond.residual_exchange.table import (
    ANSWER,
    ARRIVAL_PROBES,
    ATTENTION,
    COPIED,
    HEADS,
    MEET,
    MLP,
    OPERATOR,
    RESIDUAL_LAYERS,
    RESIDUAL_SHARES,
    SERVED,
    TOGETHER,
)
from form_invariance.experiment.answers import FIXED, Answer, percent
from form_invariance.experiment.contrasts.questions import QUESTIONS, SERVES
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import RESIDUAL_CONTRASTS
from form_invariance.stages.overlap.chance import expected_jaccard, one_region
from form_invariance.tables.columns import ALL

INPUTS = {
    "heads": HEADS,
    "arrival_probes": ARRIVAL_PROBES,
    "residual_shares": RESIDUAL_SHARES,
    "residual_layers": RESIDUAL_LAYERS,
    "residual_contrasts": RESIDUAL_CONTRASTS,
}
ARRIVES = "Does the answer arrive there, or what it is computed from?"


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
    probed, arrived = of_probes(tables)
    return [
        Answer(QUESTIONS[MEET].label, first, layers, ("residual_exchange",)),
        Answer(QUESTIONS[SERVED].label, second, served, ("residual_exchange",)),
        Answer(ARRIVES, arrived, probed, ("arrival_probes",)),
    ]


def _others(shares: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """The shares that copying donors and other operators' donors decide in the last layer where formats meet."""
    last = pairs.groupby("operator")["value"].max()
    there = shares[shares["layer"] == shares["operator"].map(last)].groupby("donor")["donor_answer"].mean()
    names = {COPIED: "donors that copied their answer", OPERATOR: "donors of another operator"}
    said = [f"{name} {percent(there[kind])}" for kind, name in names.items() if kind in there]
    return f" Where the formats have met, {' and '.join(said)}." if said else ""


def of_heads(heads: pd.DataFrame) -> str:
    """A sentence: how many heads bring the answer where it arrives, and whether all formats use the same heads.

    Args:
        heads: table of heads, with the column operator.
    """
    said = []
    for operator, rows in heads.groupby("operator", sort=False):
        count, same_format = rows["head"].nunique(), rows["donor_format"] == rows["target_format"]
        all_heads = (rows["rank"] == count) & (rows["exchanged"] == TOGETHER)
        together, other = (
            rows.loc[all_heads & kind, "donor_answer"].mean() for kind in (same_format, ~same_format)
        )
        sets = rows[same_format & rows["member"]].groupby("target_format")["head"].agg(set)
        text = (
            f"{operator}: those of layer {rows['layer'].iloc[0]} together {percent(together)} "
            f"(of another format {percent(other)})"
        )
        if len(sets):
            text += f", {_span(sets.map(len))} of {count} do {SERVES:.0%} of this"
        if len(sets) > 1:
            pairs = list(combinations(sets, 2))
            jaccard = np.mean([len(first & second) / len(first | second) for first, second in pairs])
            chance = np.mean(
                [expected_jaccard((len(first), len(second)), one_region(2, count)) for first, second in pairs]
            )
            common = ", ".join(map(str, sorted(set.intersection(*sets)))) or "none"
            text += f" ({common} in all formats), Jaccard of two formats' sets {jaccard:.2f} (chance {chance:.2f})"
        said.append(text)
    where = "; ".join(said)
    return f" The donor's heads alone, where its state arrives, decide: {where}." if said else ""


def of_probes(tables: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, str]:
    """What probes read where states arrive, in a table and in a sentence for each operator.

    Probes are trained and tested on one format, or on two. A digit is readable where the accuracy is nearer to 1
    than to chance; surely if the lower limit is, too.
    """
    rows, heads, said = tables["arrival_probes"], tables["heads"], []
    keys = ["operator", "formats", "target", "layer", "point"]
    formats = (rows["trained"] == rows["tested"]).map({True: "same", False: "two"})
    mean = rows.assign(formats=formats).groupby(keys, sort=False)[["accuracy", "low", "high", "chance"]].mean()
    accuracies = mean.assign(half=(1 + mean["chance"]) / 2)
    arrives = heads.groupby("operator")["layer"].first()
    for operator in tables["residual_shares"]["operator"].unique():
        if operator not in mean.index:
            said.append(f"{operator}: a table of words has no operands, so nothing is probed.")
        elif operator not in arrives:
            said.append(f"{operator}: states arrive in no layer.")
        else:
            said.append(f"{operator}: {_what_arrives(accuracies.loc[operator], int(arrives[operator]))}.")
    table = mean.reset_index()
    there = (table["layer"] == table["operator"].map(arrives)) & (table["point"] == ATTENTION)
    return table[there], " ".join(said)


def _what_arrives(mean: pd.DataFrame, arrival_layer: int) -> str:
    """What the probes read for one operator, whose states arrive with the attention of `arrival_layer`."""
    names = mean.index.unique("target")
    answer = next((name for name in names if name.startswith(ANSWER)), None)
    if answer is None:
        return "the asked digit is always the same"
    digits = [name for name in names if name.split()[0] in ("a", "b")]
    operands = [name for name in digits if name.split()[1] == answer.split()[1]] or digits
    there = mean.xs((arrival_layer, ATTENTION), level=("layer", "point"))
    here = there.loc["same"]
    read = here.loc[[answer, *operands]].assign(across=there["accuracy"].get("two"))
    digits_read = ", ".join(
        f"{name} {percent(row['accuracy'])}"
        + ("" if pd.isna(row["across"]) else f" ({percent(row['across'])} in another format)")
        + f", chance {percent(row['chance'])}"
        for name, row in read.iterrows()
    )
    begin = f"after the attention of layer {arrival_layer} probes read the digits {digits_read}"
    later = mean.loc["same"].loc[answer]
    later = later[(later["accuracy"] >= later["half"]) & (later.index.get_level_values("layer") >= arrival_layer)]
    layer, point = later.index[0] if len(later) else (None, None)
    first = f"the answer is readable after the {point} of layer {layer}" if len(later) else "the answer never is"
    surely, unreadable = here["low"] >= here["half"], here["high"] < here["half"]
    if surely[answer]:
        return f"{begin}; the answer has arrived, and the later MLPs write it"
    if operands and surely[operands].all() and unreadable[answer] and point == MLP:
        layers = f"layers {arrival_layer} to {layer}"
        return f"{begin}; the operands have arrived, {first}, and the MLPs of {layers} compute it"
    return f"{begin}; {first}; this does not say whether the MLPs compute it"


def _span(layers: pd.Series) -> str:
    """The first and the last layer, or the only one."""
    low, high = layers.min(), layers.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
