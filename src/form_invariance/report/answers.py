"""The paper's questions, each with a sentence and a table that are computed from a model's tables."""

from itertools import permutations, product

import pandas as pd

from form_invariance.report.beyond import dose, heads, paraphrases, trustworthy
from form_invariance.stages.agreement.table import AGREEMENT
from form_invariance.stages.answers import Answer, Results, in_how_many, percent
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.interventions.table import FORMAT_MEANS, INTERVENTIONS, TEMPLATE_MEANS, rows_of
from form_invariance.stages.overlap.figure import all_formats
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
from form_invariance.stages.probe.summary import curve, peak
from form_invariance.stages.probe.table import PROBE
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.files import read_table


def accuracy(results: Results) -> Answer:
    """Can the model do the problems?"""
    censuses = results.cells("census", CENSUS)
    right = {cell: float(table.loc[table["uniform"], "correct"].mean()) for cell, table in censuses.items()}
    worst, best = min(right, key=lambda cell: right[cell]), max(right, key=lambda cell: right[cell])
    sentence = (
        f"It answers {right[worst]:.1%} ({' '.join(worst)}) to {right[best]:.1%} ({' '.join(best)}) of the "
        "problems right."
    )
    rows = [(operator, *(right[name, operator] for name in results.formats)) for operator in results.operators]
    table = pd.DataFrame(rows, columns=["operator", *results.formats])
    return Answer("Can the model do the problems?", sentence, table, ())


def decodable(results: Results) -> Answer:
    """From which layer on is the answer in the residual stream?"""
    rows = []
    for name in results.formats:
        found = peak(curve(read_table(results.folder / name / "probe.parquet", PROBE)))
        rows.append((name, found.onset, found.layer, found.accuracy))
    onsets = [f"{'no layer' if onset is None else f'layer {onset}'} ({name})" for name, onset, *_ in rows]
    sentence = f"A linear probe reads more than half of the answers at the last token from {', '.join(onsets)} on."
    table = pd.DataFrame(rows, columns=["format", "onset layer", "best layer", "accuracy there"])
    return Answer("Where can the answer be read?", sentence, table, ("probe", "probe_positions"))


def overlap(results: Results) -> Answer:
    """Are they the same neurons in every format?"""
    reliability = results.shared("reliability", RELIABILITY)
    rows = []
    for operator, table in results.shared("overlap", OVERLAP).items():
        every, again = all_formats(table), reliability[operator]
        own = every[every["k"] == results.k].iloc[0]
        by_kind = again[again["k"] == results.k].groupby("kind")["jaccard"].mean()
        parts = (by_kind.get(kind, float("nan")) for kind in ("across_parts", "parts"))
        rows.append((operator, own["jaccard"], own["low"], own["high"], own["chance"], *parts))
    names = ["operator", "Jaccard", "low", "high", "chance", "Jaccard by parts", "ceiling of that"]
    found = pd.DataFrame(rows, columns=names)
    jaccard, chance, across, ceiling = (found[names[column]].mean() for column in (1, 4, 5, 6))
    beyond = in_how_many(found["low"] > found["chance"])
    sentence = (
        f"Of the neurons in any format's best {results.k} a layer, {jaccard:.1%} are in all formats' (mean over "
        f"operators). By chance it would be {chance:.1%}. Ranked by a part of the prompts each, it is "
        f"{across:.1%}, and {ceiling:.1%} between as many parts of one format's prompts, the ceiling. The "
        f"interval lies above chance {beyond} operators."
    )
    return Answer("Are they the same neurons in every format?", sentence, found, ("jaccard",))


_BY_TEMPLATE = ("circuit, template's means", "random, template's means")


def _intervened(results: Results, intervention: str, measure: str) -> pd.DataFrame:
    rows = []
    for (name, operator), table in results.cells("interventions", INTERVENTIONS).items():
        own = table[table["k"] == results.k]
        found = []
        for means in (FORMAT_MEANS, TEMPLATE_MEANS):
            by_neurons = rows_of(own, intervention, means=means).groupby("neurons")[measure].mean()
            found += by_neurons.reindex(["circuit", "random"]).tolist()
        size = own.loc[own["neurons"] == "circuit", "n_neurons"].iloc[0]
        rows.append((name, operator, size, *found))
    names = ["format", "operator", "neurons", "circuit", "random", *_BY_TEMPLATE]
    return pd.DataFrame(rows, columns=names)


def _by_template(table: pd.DataFrame) -> str:
    """The sentence on the template's own means."""
    circuit, random = (percent(table[name].mean()) for name in _BY_TEMPLATE)
    return f" With the means of each template alone in place of the format's, it is {circuit} ({random})."


def sufficient(results: Results) -> Answer:
    """Do the shared neurons suffice?"""
    table = _intervened(results, "keep_only", "faithfulness_mean")
    circuit, random = (percent(table[name].mean()) for name in ("circuit", "random"))
    sentence = (
        f"With all other late neurons at their means, the shared ones (k = {results.k}) keep {circuit} of what "
        f"the whole model does beyond an ablated one; as many random neurons keep {random}. The circuit is "
        f"better {in_how_many(table['circuit'] > table['random'])} cells."
    )
    sentence += _by_template(table)
    return Answer("Do the shared neurons suffice?", sentence, table, ("keep_only",))


def necessary(results: Results) -> Answer:
    """Are the shared neurons needed?"""
    table = _intervened(results, "knockout", "accuracy")
    circuit, random = (percent(table[name].mean()) for name in ("circuit", "random"))
    sentence = (
        f"With the shared neurons (k = {results.k}) at their means, {circuit} of the answers stay right; with as "
        f"many random ones {random}. The circuit's loss is larger "
        f"{in_how_many(table['circuit'] < table['random'])} cells."
    )
    sentence += _by_template(table)
    return Answer("Are the shared neurons needed?", sentence, table, ("knockout",))


def transferable(results: Results) -> Answer:
    """Does a format's activation mend another's answer?"""
    conditions = ["matched", "random", "mismatched"]
    rows = []
    for operator, (donor, target) in product(results.operators, permutations(results.formats, 2)):
        path = results.folder / "transfer" / operator / f"{donor}_to_{target}.parquet"
        table = read_table(path, TRANSFER)
        own = table[table["k"] == results.k].set_index("condition")
        rows.append((operator, donor, target, own.loc["matched", "pairs"], *own["recovered"].reindex(conditions)))
    found = pd.DataFrame(rows, columns=["operator", "donor", "target", "pairs", *conditions])
    matched, random, mismatched = (percent(found[name].mean()) for name in conditions)
    sentence = (
        f"Of wrong answers whose problem is right in another format, {matched} become right when the shared "
        f"neurons (k = {results.k}) take their activations from there; {random} with as many random neurons, "
        f"{mismatched} with another problem's activations. The circuit mends more than random neurons "
        f"{in_how_many(found['matched'] > found['random'])} directions."
    )
    return Answer("Do a format's activations mend another's answers?", sentence, found, ("transfer",))


def heuristics(results: Results) -> Answer:
    """Do the shared neurons do the same in every format?"""
    rows = []
    for operator, table in results.shared("agreement", AGREEMENT).items():
        strict = (table["mode"] == "strict") & (table["activations"] == "observed") & (table["over"] == "all")
        own = table[strict & (table["scope"] == "all") & (table["statistic"] == "exact")]
        rows += [(operator, *values) for values in own[["neurons", "observed", "null_mean", "p"]].to_numpy()]
    found = pd.DataFrame(rows, columns=["operator", "neurons", "same families", "if permuted", "p"]).dropna()
    sentence = "No shared neuron has a label beyond chance in every format, so there is nothing to compare."
    if len(found):
        same, permuted = (percent(found[name].mean()) for name in ("same families", "if permuted"))
        sentence = (
            f"Of the neurons that are labelled beyond chance in all formats, {same} have exactly the same "
            f"heuristic families there (mean over operators); {permuted} if neurons are permuted. p < 0.05 "
            f"{in_how_many(found['p'] < 0.05)} operators."
        )
    return Answer("Do the shared neurons do the same in every format?", sentence, found, ("heuristics",))


def answers(results: Results) -> list[Answer]:
    """All answers for a model."""
    asked = (
        accuracy,
        decodable,
        overlap,
        paraphrases,
        sufficient,
        necessary,
        transferable,
        dose,
        heuristics,
        heads,
        trustworthy,
    )
    return [answer for ask in asked if (answer := ask(results)) is not None]
