"""What each of the six steps says: numbers and words from the tables, for the page's template."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.drawing.neuron_sets import TITLES
from form_invariance.drawing.style import visible
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.membership import POSITIVE
from form_invariance.explainer.example import Example, Neuron, labels
from form_invariance.stages.interventions.table import of_intervention
from form_invariance.verdicts.summary.lines import pairs, said, verdicts_at

Tables = Mapping[str, pd.DataFrame]
Records = list[dict[Any, Any]]

UNMODIFIED = "whole model"


def posed(census: pd.DataFrame, example: Example) -> Records:
    """Step 1, a record for each format: prompt, the model's answer, and how often it is right."""
    rates = census[census["uniform"]].groupby("format")["correct"].agg(["mean", "size"])
    rows = example.rows.join(rates, on="format")
    return rows.assign(predicted=rows["predicted"].map(visible)).to_dict("records")


def effects_in_layer(ranking: pd.DataFrame, layer: int, k: int) -> pd.DataFrame:
    """Step 2: the first format's neurons of a layer in order of effect; column `best` for the k best."""
    layer_rows = ranking[(ranking["format"] == ranking["format"].iloc[0]) & (ranking["layer"] == layer)]
    return layer_rows.sort_values("rank").assign(best=layer_rows["rank"] <= k)


def share_of_best(effects: pd.DataFrame) -> float:
    """The share of a layer's positive effect that the best neurons have; NaN if no effect is positive."""
    positive = effects["ie_mean"].clip(lower=0)
    total = positive.sum()
    return float(positive[effects["best"]].sum() / total) if total else float("nan")


def members(ranking: pd.DataFrame, layer: int, k: int, membership: str) -> pd.DataFrame:
    """Step 3: which neurons of a layer are among the best k, bool (formats, neurons); shared ones come first."""
    best = ranking[(ranking["layer"] == layer) & (ranking["rank"] <= k)]
    best = best[best["ie_mean"] > 0] if membership == POSITIVE else best[best["ie_mean"] != 0]
    table = pd.crosstab(best["format"], best["neuron"]).reindex(ranking["format"].unique(), fill_value=0) > 0
    patterns = [tuple(~table[neuron]) for neuron in table]
    order = sorted(range(len(patterns)), key=lambda column: (sum(patterns[column]), patterns[column]))
    return table.iloc[:, order]


def ablations(tables: Tables, operator: str, k: int) -> pd.DataFrame:
    """Step 4: the probability of the right answer with every set of neurons, kept alone and knocked out.

    Accuracy is not shown, because it is equal for all sets if they leave all answers right, or none.

    Returns:
        Columns intervention, format, set (its title in the figure), value, low, high (of the shared neurons).
    """
    of_k = {name: tables[name][tables[name]["k"] == k] for name in ("interventions", "contrasts")}
    done = pd.concat([of_intervention(of_k["interventions"], name) for name in INTERVENED])
    columns = {"value": "probability", "low": "probability_low", "high": "probability_high"}
    titles = done["neurons"].map(TITLES)
    done = done.assign(set=titles, **{name: done[of] for name, of in columns.items()}).dropna(subset="set")
    done.loc[done["neurons"] != "circuit", ["low", "high"]] = np.nan
    # A knockout's contrast is the loss. The loss and what is left add up to the unmodified model.
    contrasts = of_k["contrasts"]
    contrasts = contrasts[contrasts["contrast"] == "circuit_minus_control_everywhere"]
    contrasts = contrasts[(contrasts["operator"] == operator) & (contrasts["metric"] == "probability")]
    lost = contrasts[contrasts["intervention"] == "knockout"].set_index("format")["first"]
    left = done[(done["intervention"] == "knockout") & (done["neurons"] == "circuit")]
    whole = left.assign(set=UNMODIFIED, value=left["value"] + left["format"].map(lost), low=np.nan, high=np.nan)
    all_sets = pd.concat([*(whole.assign(intervention=name) for name in INTERVENED), done], ignore_index=True)
    return all_sets[["intervention", "format", "set", *columns]]


def in_formats(tables: Tables, neuron: Neuron) -> Records:
    """Step 5: rank, effect and best strict label of a neuron in each format; None if it has none."""
    layer, number = neuron
    by_format = pd.DataFrame({"format": tables["ranking"]["format"].unique()})
    parts = [_of(tables["ranking"], layer, number)[["format", "rank", "ie_mean"]]]
    if "heuristics" in tables:
        neuron_labels = labels(_of(tables["heuristics"], layer, number))
        best = neuron_labels.sort_values(["score", "heuristic"], ascending=[False, True]).drop_duplicates("format")
        parts.append(best[["format", "heuristic", "family", "score", "base_rate"]])
    for part in parts:
        by_format = by_format.merge(part, on="format", how="left")
    return by_format.astype(object).where(by_format.notna(), None).to_dict("records")


def _of(table: pd.DataFrame, layer: int, neuron: int) -> pd.DataFrame:
    return table[(table["layer"] == layer) & (table["neuron"] == neuron)]


def verdicts(table: pd.DataFrame, k: int) -> dict[Any, dict[Any, Any]]:
    """The verdicts over all operators and formats, by the name of the question."""
    rows = verdicts_at(table, k).to_dict("records")
    words = [{**vars(QUESTIONS[row["question"]]), **row, "said": said(row), "n": pairs(row)} for row in rows]
    return {row["question"]: row for row in words}
