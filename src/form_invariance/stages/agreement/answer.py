"""Do the shared neurons do the same in every format?"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.experiment.answers import Answer, in_how_many, percent
from form_invariance.experiment.contrasts.engine import COLUMNS
from form_invariance.stages.agreement.contrasts import by_neuron, correlated, label_difference, same_families
from form_invariance.stages.agreement.table import ACTIVATION_CORRELATION, AGREEMENT, LABELLED
from form_invariance.stages.heuristics.names import BASELINES, POPULATIONS, SHARED
from form_invariance.tables.columns import ALL

INPUTS = {
    "agreement": AGREEMENT,
    "labelled": LABELLED,
    "activation_correlation": ACTIVATION_CORRELATION,
}
QUESTION = "Do the shared neurons do the same in every format?"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Exact agreement of strict families, compared with permuted families, and correlation of activations."""
    criteria = {"mode": "strict", "activations": "observed", "over": "all", "scope": "all", "statistic": "exact"}
    table = tables["agreement"]
    shared_rows = table[(table[[*criteria, "kind"]] == pd.Series({**criteria, "kind": SHARED})).all(axis=1)]
    by_operator = shared_rows[["operator", "neurons", "observed", "null_mean", "p"]]
    by_operator.columns = pd.Index(["operator", "neurons", "same families", "if permuted", "p"])
    defined = by_operator.dropna()
    sentence = "No shared neuron has a label beyond chance in every format, so there is nothing to compare."
    if len(defined):
        same, permuted = (percent(defined[name].mean()) for name in ("same families", "if permuted"))
        sentence = (
            f"Of the neurons that have a label beyond chance in every format, {same} have exactly the same "
            f"heuristic families in all of them (mean over operators); {permuted} if neurons are permuted. p < "
            f"0.05 {in_how_many(defined['p'] < 0.05)} operators."
        )
    correlation, columns = _correlation(tables["activation_correlation"])
    measures = ["same families", "correlation, shared"]
    shown = by_operator.merge(columns, "left", "operator").dropna(subset=measures, how="all")
    labelled = tables["labelled"]
    figures = ("heuristics",) if labelled.loc[labelled["kind"] == SHARED, "neurons"].any() else ()
    return [
        Answer(QUESTION, f"{sentence} {correlation}", shown, figures),
        _contrast(table),
        _labels(labelled),
    ]


def label_shares(labelled: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Share of the formats in which each neuron has a strict label, (neurons,) by kind and operator."""
    strict_rows = labelled[(labelled["mode"] == "strict") & (labelled["activations"] == "observed")]
    shares: dict[str, dict[str, np.ndarray]] = {}
    for (kind, operator), rows in strict_rows.groupby(["kind", "operator"]):
        values = np.repeat(rows["formats"].to_numpy() / rows["formats"].max(), rows["neurons"].to_numpy())
        if len(values):
            shares.setdefault(str(kind), {})[str(operator)] = values
    return shares


def _contrast(agreement: pd.DataFrame) -> Answer:
    """Equal families in every format, compared with matched neurons that are not shared."""
    question = "Do shared neurons keep their families across formats more often than other neurons?"
    rows = pd.DataFrame(same_families(agreement))
    defined = rows[rows["verdict"] != "undefined"] if len(rows) else rows
    if not len(defined):
        return Answer(question, "Fewer than five neurons have a label, so nothing is compared.", defined)
    among = {"all": "every format", "any": "some format"}
    sentences = []
    for row in defined[defined["operator"] == ALL].to_dict("records"):
        value, low, high = (f"{100 * row[name]:+z.1f}" for name in ("difference", "low", "high"))
        sentences.append(
            f"Of the neurons labelled in {among[row['over']]}, {percent(row['first'])} of the shared ones and "
            f"{percent(row['second'])} of those that are not shared have the same families in all formats: "
            f"{value} percentage points, 95 % interval {low} to {high}: {row['verdict']}."
        )
    table = defined[["over", "operator", "first", "second", "control", "difference", "low", "high", "verdict"]]
    table = table.rename(columns={"over": "labelled in", "first": "shared", "second": "not shared"})
    control = " Not shared are as many neurons of equal variance or effect, whichever agree more."
    return Answer(question, " ".join(sentences) + control, table.replace({"control": POPULATIONS}))


def _labels(labelled: pd.DataFrame) -> Answer:
    """Share of the shared neurons with a strict label, compared with the baselines."""
    question = "Do shared neurons follow heuristics more often than other neurons?"
    shares = label_shares(labelled)
    operators = sorted(shares.get(SHARED, {}))
    columns: dict[str, list[object]] = {"operator": [*operators]}
    for kind, name in POPULATIONS.items():
        of_kind = shares.get(kind, {})
        columns[name] = [of_kind[operator].mean() if operator in of_kind else np.nan for operator in operators]
    table = pd.DataFrame(columns)
    means = {kind: float(table[POPULATIONS[kind]].mean()) for kind in BASELINES if kind in shares}
    if not operators or not means:
        return Answer(question, "No neuron is shared, so there is nothing to compare.", table)
    strongest = max(means, key=lambda kind: means[kind])
    contrast = label_difference(shares[SHARED], shares[strongest])
    value, low, high = (f"{100 * contrast[name]:+z.1f}" for name in ("difference", "low", "high"))
    baselines = ", ".join(f"{POPULATIONS[kind]} {percent(mean)}" for kind, mean in means.items())
    labelled_part = percent(float(table[POPULATIONS[SHARED]].mean()))
    sentence = (
        f"{labelled_part} of the shared neurons have a label beyond chance in a "
        f"format (mean over formats and operators); {baselines}. Shared minus the strongest of these "
        f"({POPULATIONS[strongest]}): {value} percentage points, 95 % interval {low} to {high}: "
        f"{contrast['verdict']}."
    )
    return Answer(question, sentence, table)


def _correlation(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Correlation of activations between formats by kind of neurons: a sentence, and columns by operator."""
    neurons = by_neuron(table)
    contrasts = pd.DataFrame([*correlated(neurons)], columns=["operator", *COLUMNS])
    means = neurons.groupby(["operator", "kind"]).mean().unstack("kind").reindex(columns=[*POPULATIONS])
    columns = means.rename(columns=lambda kind: f"correlation, {POPULATIONS[kind]}").reset_index()
    columns = columns.merge(contrasts[["operator", "difference", "low", "high", "verdict"]], "left", "operator")
    compared = contrasts[contrasts["operator"] == ALL].query("verdict != 'undefined'").to_dict("records")
    if not compared:
        why = "fewer than five shared neurons vary in every format, or all neurons correlate equally"
        return f"Activations are not compared, because {why}.", columns
    by_kind = means.mean().dropna()
    kinds = "; ".join(f"{name} {by_kind[kind]:z.3f}" for kind, name in POPULATIONS.items() if kind in by_kind)
    value, low, high = (f"{compared[0][name]:+z.3f}" for name in ("difference", "low", "high"))
    constant = int(neurons.isna().sum())
    sentence = (
        "Over the same problems, activations in two formats correlate (mean over pairs of formats, neurons and "
        f"operators): {kinds}. Shared minus the strongest of the others in each operator: {value}, 95 % interval "
        f"{low} to {high}: {compared[0]['verdict']}."
    )
    return sentence + f" Left out are {constant} neurons that are constant in a format." * (constant > 0), columns
