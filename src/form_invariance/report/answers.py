"""The questions of the experiment, each with a sentence and a table that are computed from a model's tables."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from form_invariance import schemas
from form_invariance.figures.jaccard import all_formats
from form_invariance.figures.variants import one_format
from form_invariance.head_overlap import ALL, ROUTING, middle_size, of_all_formats
from form_invariance.intersection import POOLED
from form_invariance.precision import EVERY_LAYER
from form_invariance.probe_summary import curve, peak
from form_invariance.tables_io import read_table, read_tables


@dataclass(frozen=True)
class Answer:
    """One question, answered for one model."""

    question: str
    sentence: str
    table: pd.DataFrame
    figures: tuple[str, ...]
    """Names of its figures."""


@dataclass(frozen=True)
class Results:
    """Where one model's results lie, and what was run."""

    folder: Path  # results/MODEL
    formats: list[str]
    operators: list[str]
    k: int

    def cells(self, name: str, schema: schemas.Schema) -> dict[tuple[str, str], pd.DataFrame]:
        """A table of every (format, operator)."""
        paths = {
            (one, operator): self.folder / one / operator / f"{name}.parquet"
            for one in self.formats
            for operator in self.operators
        }
        return read_tables(paths, schema)

    def shared(self, name: str, schema: schemas.Schema) -> dict[str, pd.DataFrame]:
        """A table of every operator, over all formats."""
        paths = {operator: self.folder / "shared" / operator / f"{name}.parquet" for operator in self.operators}
        return read_tables(paths, schema)


def _of(holds: pd.Series) -> str:
    """In how many of the rows something holds, in words."""
    part, whole = int(holds.sum()), len(holds)
    return f"in all {whole}" if part == whole else f"in {part or 'none'} of {whole}"


def _percent(value: float) -> str:
    return f"{round(value, 2) + 0.0:.0%}"


def accuracy(results: Results) -> Answer:
    """Can the model do the problems?"""
    censuses = results.cells("census", schemas.CENSUS)
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
        found = peak(curve(read_table(results.folder / name / "probe.parquet", schemas.PROBE)))
        rows.append((name, found.onset, found.layer, found.accuracy))
    onsets = [f"{'no layer' if onset is None else f'layer {onset}'} ({name})" for name, onset, *_ in rows]
    sentence = f"A linear probe reads more than half of the answers at the last token from {', '.join(onsets)} on."
    table = pd.DataFrame(rows, columns=["format", "onset layer", "best layer", "accuracy there"])
    return Answer("Where can the answer be read?", sentence, table, ("probe", "probe_positions"))


def overlap(results: Results) -> Answer:
    """Are they the same neurons in every format?"""
    reliability = results.shared("reliability", schemas.RELIABILITY)
    rows = []
    for operator, table in results.shared("overlap", schemas.OVERLAP).items():
        every, again = all_formats(table), reliability[operator]
        own = every[every["k"] == results.k].iloc[0]
        halves = again[(again["kind"] == "split_half") & (again["k"] == results.k)]["jaccard"].mean()
        rows.append((operator, own["jaccard"], own["low"], own["high"], own["chance"], halves))
    found = pd.DataFrame(rows, columns=["operator", "Jaccard", "low", "high", "chance", "ceiling"])
    jaccard, chance, ceiling = (found[name].mean() for name in ("Jaccard", "chance", "ceiling"))
    beyond = _of(found["low"] > found["chance"])
    sentence = (
        f"Of the neurons in any format's best {results.k} a layer, {jaccard:.1%} are in all formats' (mean over "
        f"operators). By chance it would be {chance:.1%}; between halves of one format's prompts it is "
        f"{ceiling:.1%}, the ceiling. The interval lies above chance {beyond} operators."
    )
    return Answer("Are they the same neurons in every format?", sentence, found, ("jaccard",))


def heads(results: Results) -> Answer | None:
    """Are they the same attention heads in every format? None where the heads were not patched."""
    wanted = [("shared", "head_overlap"), *((name, "heads") for name in results.formats)]
    for operator, (place, table) in product(results.operators, wanted):
        if not (results.folder / place / operator / f"{table}.parquet").exists():
            return None
    tables = results.shared("head_overlap", schemas.HEAD_OVERLAP)
    h = middle_size(next(iter(tables.values())))
    columns = ["layers", "h", "jaccard", "low", "high", "chance", "ceiling"]
    found = pd.concat(
        of_all_formats(table)[columns].assign(operator=operator) for operator, table in tables.items()
    )[["operator", *columns]]
    own = found[found["h"] == h]
    mean = own.groupby("layers")[["jaccard", "chance", "ceiling"]].mean()
    everywhere, beyond = mean.loc[ALL], _of((own["low"] > own["chance"])[own["layers"] == ALL])
    sentence = (
        f"Of the attention heads in any format's best {h}, {everywhere['jaccard']:.1%} are in all formats' (mean "
        f"over operators). By chance it would be {everywhere['chance']:.1%}; between halves of one format's "
        f"prompts it is {everywhere['ceiling']:.1%}, the ceiling. The interval lies above chance {beyond} "
        "operators."
    )
    if ROUTING in mean.index:
        routing = mean.loc[ROUTING]
        sentence += (
            f" Among the heads below the late layers it is {routing['jaccard']:.1%} ({routing['chance']:.1%} by "
            f"chance, ceiling {routing['ceiling']:.1%})."
        )
    sentence += _attention_to_operands(results, h)
    return Answer("Are they the same attention heads in every format?", sentence, found, ("heads",))


def _attention_to_operands(results: Results, h: int) -> str:
    """How much the shared heads attend to the operands, in a sentence; empty where no head is shared."""
    cells = pd.concat(
        table.assign(format=name, operator=operator)
        for (name, operator), table in results.cells("heads", schemas.HEADS).items()
    )
    worst = cells.groupby(["operator", "layer", "head"])["rank"].transform("max")
    operands = cells["attention_a"] + cells["attention_b"]
    if not (worst <= h).any():
        return ""
    shared, mean = (_percent(some.mean()) for some in (operands[worst <= h], operands))
    return (
        f" From the last token, the heads that are in all formats' best {h} pay {shared} of their attention to "
        f"the two operands, the mean head {mean}."
    )


def _intervened(results: Results, intervention: str, measure: str) -> pd.DataFrame:
    rows = []
    for (name, operator), table in results.cells("interventions", schemas.INTERVENTIONS).items():
        everywhere = (table["intervention"] == intervention) & (table["positions"] == "all")
        own = table[everywhere & (table["k"] == results.k)]
        means = own.groupby("neurons")[measure].mean()
        size = own.loc[own["neurons"] == "circuit", "n_neurons"].iloc[0]
        rows.append((name, operator, size, means["circuit"], means.get("random", float("nan"))))
    return pd.DataFrame(rows, columns=["format", "operator", "neurons", "circuit", "random"])


def paraphrases(results: Results) -> Answer | None:
    """Is a circuit of one paraphrase the circuit of another? None where no paraphrases were measured."""
    paths = {name: results.folder / "shared" / name / "variants.parquet" for name in results.operators}
    tables = read_tables({name: path for name, path in paths.items() if path.exists()}, schemas.VARIANTS)
    if not tables:
        return None
    rows = pd.concat([table.assign(operator=operator) for operator, table in tables.items()])
    own = rows[(rows["layer"] == POOLED) & (rows["k"] == results.k)]
    measured = own[own["prompts"] > 0]
    wordings, formats = measured[one_format(measured)], measured[~one_format(measured)]
    sentence = "In too few prompts two wordings are right, so there is nothing to compare."
    if len(wordings):
        kept = wordings[["effect_of_first", "effect_of_second"]].to_numpy().mean()
        one, two = (rows[["across_halves", "within_halves"]].mean() for rows in (wordings, formats))
        sentence = (
            f"Ranked by different prompts, two wordings of a format have a mean Jaccard of their best {results.k} "
            f"neurons of {one['across_halves']:.2f}, where one wording has {one['within_halves']:.2f} with "
            f"itself. For two formats it is {two['across_halves']:.2f} and {two['within_halves']:.2f}, by chance "
            f"{wordings['chance'].mean():.2f}. One wording's best do {_percent(kept)} of what the other's own do."
        )
    shown = ["operator", "first_format", "first", "second_format", "second", "asked", "prompts", "jaccard", "low"]
    shown += ["high", "chance", "across_halves", "within_halves", "effect_of_first", "effect_of_second"]
    question = "Is a circuit of one paraphrase the circuit of another?"
    return Answer(question, sentence, own[shown], ("variants",))


def sufficient(results: Results) -> Answer:
    """Do the shared neurons suffice?"""
    table = _intervened(results, "keep_only", "faithfulness_mean")
    circuit, random = (_percent(table[name].mean()) for name in ("circuit", "random"))
    sentence = (
        f"With all other late neurons at their means, the shared ones (k = {results.k}) keep {circuit} of what "
        f"the whole model does beyond an ablated one; as many random neurons keep {random}. The circuit is "
        f"better {_of(table['circuit'] > table['random'])} cells."
    )
    return Answer("Do the shared neurons suffice?", sentence, table, ("keep_only",))


def necessary(results: Results) -> Answer:
    """Are the shared neurons needed?"""
    table = _intervened(results, "knockout", "accuracy")
    circuit, random = (_percent(table[name].mean()) for name in ("circuit", "random"))
    sentence = (
        f"With the shared neurons (k = {results.k}) at their means, {circuit} of the answers stay right; with as "
        f"many random ones {random}. The circuit's loss is larger {_of(table['circuit'] < table['random'])} cells."
    )
    return Answer("Are the shared neurons needed?", sentence, table, ("knockout",))


def transferable(results: Results) -> Answer:
    """Does a format's activation mend another's answer?"""
    conditions = ["matched", "random", "mismatched"]
    rows = []
    for operator in results.operators:
        for path in sorted((results.folder / "transfer" / operator).glob("*.parquet")):
            table = read_table(path, schemas.TRANSFER)
            own = table[table["k"] == results.k].set_index("condition")
            pairs = own.loc["matched", ["donor", "target", "pairs"]]
            rows.append((operator, *pairs, *own["recovered"].reindex(conditions)))
    found = pd.DataFrame(rows, columns=["operator", "donor", "target", "pairs", *conditions])
    matched, random, mismatched = (_percent(found[name].mean()) for name in conditions)
    sentence = (
        f"Of wrong answers whose problem is right in another format, {matched} become right when the shared "
        f"neurons (k = {results.k}) take their activations from there; {random} with as many random neurons, "
        f"{mismatched} with another problem's activations. The circuit mends more than random neurons "
        f"{_of(found['matched'] > found['random'])} directions."
    )
    return Answer("Do a format's activations mend another's answers?", sentence, found, ("transfer",))


def _smallest(recovered: pd.Series, wanted: float) -> str:
    """The smallest dose that recovers so much, from recovery by dose."""
    return f"{recovered.index[recovered >= wanted].min():.0%}"


def dose(results: Results) -> Answer | None:
    """How much of the activation must be transferred? None where no doses were given."""
    if not (results.folder / "shared" / results.operators[0] / "dose.parquet").exists():
        return None
    tables = results.shared("dose", schemas.DOSE)
    rows = pd.concat([table.assign(operator=operator) for operator, table in tables.items()])
    cells = rows.groupby(["kind", "dose", "operator", "donor", "target"])["recovered"].mean()
    found = cells.groupby(["dose", "kind"]).mean().unstack("kind")
    whole = float(found["strength"].loc[1])
    sentence = f"All of it mends {_percent(whole)} of the wrong answers, so there is no effect to halve."
    if whole > 0:
        strength, best, random = (
            _smallest(found[kind], whole / 2) for kind in ("strength", "neurons", "neurons_random")
        )
        sentence = (
            f"The shared neurons' whole activations (k = {rows['k'].iloc[0]}) mend {_percent(whole)} of the wrong "
            "answers (mean over operators and directions). Half of that is reached when every shared neuron moves "
            f"{strength} of the way, or when {best} of them move all the way, the best first, or {random} in a "
            "random order: the smallest doses tried that reach it."
        )
    return Answer("How much of the activation must be transferred?", sentence, found.reset_index(), ("dose",))


def heuristics(results: Results) -> Answer:
    """Do the shared neurons do the same in every format?"""
    rows = []
    for operator, table in results.shared("agreement", schemas.AGREEMENT).items():
        strict = (table["mode"] == "strict") & (table["activations"] == "observed") & (table["over"] == "all")
        own = table[strict & (table["scope"] == "all") & (table["statistic"] == "exact")]
        rows += [(operator, *values) for values in own[["neurons", "observed", "null_mean", "p"]].to_numpy()]
    found = pd.DataFrame(rows, columns=["operator", "neurons", "same families", "if permuted", "p"]).dropna()
    sentence = "No shared neuron has a label beyond chance in every format, so there is nothing to compare."
    if len(found):
        same, permuted = (_percent(found[name].mean()) for name in ("same families", "if permuted"))
        sentence = (
            f"Of the neurons that are labelled beyond chance in all formats, {same} have exactly the same "
            f"heuristic families there (mean over operators); {permuted} if neurons are permuted. p < 0.05 "
            f"{_of(found['p'] < 0.05)} operators."
        )
    return Answer("Do the shared neurons do the same in every format?", sentence, found, ("heuristics",))


def trustworthy(results: Results) -> Answer | None:
    """How much would a first stage miss? None where not every neuron was patched."""
    path = results.folder / "shared/audit.parquet"
    if not path.exists():
        return None
    table = read_table(path, schemas.AUDIT)
    pooled = table[(table["layer"] == EVERY_LAYER) & (table["k"] == results.k)]
    recall = pooled.groupby("candidates")["recall"].mean()
    enough, near = recall.index[recall >= 0.99].min(), recall.index[recall.index >= results.k].min()
    sentence = (
        f"Every neuron was patched exactly. Of the exact best {results.k} of a layer, {_percent(recall[near])} "
        f"are among the best {near} by attribution; {enough} would have had to be let through to keep 99%. The rank "
        f"correlation of the first stage's score and the exact effect is {pooled['rank_correlation'].mean():.2f}."
    )
    return Answer("Can the ranking's first stage be trusted?", sentence, recall.reset_index(), ("audit",))


def ground_truth(path: Path) -> Answer:
    """Does the pipeline find what was planted? From the planted table; about no model of the run."""
    table = read_table(path, schemas.PLANTED)
    table = table[table["layer"] == POOLED].drop(columns="layer")

    def mean(measure: str, circuit: str, column: str = "value") -> str:
        own = table[(table["measure"] == measure) & (table["circuit"] == circuit)]
        return _percent(own[column].mean())

    def with_control(measure: str) -> str:
        return f"{mean(measure, 'shared')} ({mean(measure, 'shared', 'random')} with as many random ones)"

    ranked = table[table["measure"].isin(["first_stage", "ranking"])]
    first = (ranked["value"] * ranked["of"]).groupby(ranked["measure"]).sum().round().astype(int)
    planted = ranked.loc[ranked["measure"] == "ranking", "of"].sum()
    sentence = (
        "Two models were built by hand, so that the neurons that carry the answer are known: the same in every "
        f"format, or others in each. Of {planted} of them, over formats, exact patching puts {first['ranking']} "
        f"first, attribution {first['first_stage']}. The shared ones alone keep {with_control('keep_only')} of "
        f"what the model does; without them {with_control('knockout')} is left; their activations mend "
        f"{with_control('transfer')} of the wrong answers. Where each format has its own, "
        f"{mean('overlap', 'separate')} of the formats' best are found to be shared. The largest deviation from "
        f"what was built is {(table['value'] - table['expected']).abs().max(skipna=False):.3f}."
    )
    return Answer("Does the pipeline find what was planted?", sentence, table, ("planted",))


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
