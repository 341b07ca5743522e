"""Choose the neuron and the problem that the page follows, by rules and not by hand."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.stages.heuristics.names import SHARED
from form_invariance.stages.heuristics.table import strict_labels

Neuron = tuple[int, int]
"""Layer and number."""


@dataclass(frozen=True)
class Example:
    """One problem in every format, and the effect of a neuron's value from another problem in its run.

    Attributes:
        rows: the problem's census rows, one for each format.
        partner: the other problem, a row of the corrupt table.
        effect: the neuron's effect on this problem, with this partner.
        range: smallest and largest effect of the neuron over the train prompts that could have been chosen.
        candidates: number of these prompts.
        right: whether the model answers these correctly in every format; if not, they are all train prompts.
    """

    rows: pd.DataFrame
    partner: pd.Series
    effect: float
    range: tuple[float, float]
    candidates: int
    right: bool


def choose_example(
    tables: Mapping[str, pd.DataFrame], effects: Mapping[str, np.ndarray], neuron: Neuron
) -> Example:
    """The problem on which the neuron's effect is nearest to the mean effect.

    It is one of the first format's train prompts that the model answers correctly in every format; of all train
    prompts, if there is none.

    Args:
        tables: census, with the column format; dataset and corrupt, of the first format.
        effects: `effects.L` (S, P, C) and `candidates.L` (C,) of the first format.
    """
    census, dataset, corrupt = (tables[name] for name in ("census", "dataset", "corrupt"))
    train = dataset[dataset["split"] == "train"].sort_values("index")
    right_in = census[census["correct"]].groupby(["a", "b"])["format"].nunique()
    right_in = right_in.reindex(pd.MultiIndex.from_frame(train[["a", "b"]]), fill_value=0)
    right = (right_in == census["format"].nunique()).to_numpy()
    usable = right if right.any() else np.ones(len(train), dtype=bool)
    layer, number = neuron
    column = int(np.flatnonzero(effects[f"candidates.{layer}"] == number)[0])
    by_prompt = effects[f"effects.{layer}"][0, :, column].astype(np.float64)  # (P,), of the first draw of partners
    nearest = int(np.where(usable, np.abs(by_prompt - by_prompt.mean()), np.inf).argmin())
    row = train.iloc[nearest]
    partners = corrupt[(corrupt["corrupt_seed"] == 0) & (corrupt["index"] == row["index"])]
    return Example(
        rows=census[(census["a"] == row["a"]) & (census["b"] == row["b"])].reset_index(drop=True),
        partner=partners.iloc[0],
        effect=float(by_prompt[nearest]),
        range=(float(by_prompt[usable].min()), float(by_prompt[usable].max())),
        candidates=int(usable.sum()),
        right=bool(right.any()),
    )


def labels(heuristics: pd.DataFrame) -> pd.DataFrame:
    """The strict labels of the shared neurons."""
    return strict_labels(heuristics[heuristics["neurons"] == SHARED])


def labelled_everywhere(heuristics: pd.DataFrame) -> pd.DataFrame:
    """The shared neurons that have a label in every format of `heuristics`, columns layer and neuron."""
    formats = labels(heuristics).groupby(["layer", "neuron"])["format"].nunique()
    return formats[formats == heuristics["format"].nunique()].reset_index()[["layer", "neuron"]]


def choose_neuron(ranking: pd.DataFrame, shared: pd.DataFrame, labelled: pd.DataFrame) -> Neuron:
    """The labelled neuron with the best mean rank; else the shared one; else the best of the first format.

    `ranking` has the column format. `shared`, and those `labelled` in every format, have columns layer and neuron.
    """
    for neurons in (labelled, shared):
        if len(neurons):
            neuron_ranks = ranking.merge(neurons[["layer", "neuron"]], on=["layer", "neuron"])
            means = neuron_ranks.groupby(["layer", "neuron"], as_index=False)["rank"].mean()
            best = means.loc[means["rank"].idxmin()]
            break
    else:
        first = ranking[ranking["format"] == ranking["format"].iloc[0]]
        best = first.loc[first["ie_mean"].idxmax()]
    return int(best["layer"]), int(best["neuron"])
