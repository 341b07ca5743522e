"""Questions beyond the paper's: heads, paraphrases, the dose of transfer, and trust in the pipeline."""

from pathlib import Path

import pandas as pd

from form_invariance.stages.answers import Answer, Results, in_how_many, percent
from form_invariance.stages.audit.table import AUDIT
from form_invariance.stages.dose.table import DOSE
from form_invariance.stages.head_overlap.compute import ALL, ROUTING, middle_size, of_all_formats
from form_invariance.stages.heads.table import HEAD_OVERLAP, HEADS
from form_invariance.stages.overlap.compute import POOLED
from form_invariance.stages.paraphrases.figure import one_ending, one_format, two_templates
from form_invariance.stages.paraphrases.table import VARIANTS
from form_invariance.stages.planted.table import PLANTED
from form_invariance.stages.precision.compute import EVERY_LAYER
from form_invariance.tables.files import read_table, read_tables


def heads(results: Results) -> Answer | None:
    """Are they the same attention heads in every format? None where the heads were not patched."""
    if "heads" not in results.stages:
        return None
    tables = results.shared("head_overlap", HEAD_OVERLAP)
    h = middle_size(next(iter(tables.values())))
    columns = ["layers", "h", "jaccard", "low", "high", "chance", "ceiling"]
    found = pd.concat(
        of_all_formats(table)[columns].assign(operator=operator) for operator, table in tables.items()
    )[["operator", *columns]]
    own = found[found["h"] == h]
    mean = own.groupby("layers")[["jaccard", "chance", "ceiling"]].mean()
    everywhere, beyond = mean.loc[ALL], in_how_many((own["low"] > own["chance"])[own["layers"] == ALL])
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
        for (name, operator), table in results.cells("heads", HEADS).items()
    )
    worst = cells.groupby(["operator", "layer", "head"])["rank"].transform("max")
    operands = cells["attention_a"] + cells["attention_b"]
    if not (worst <= h).any():
        return ""
    shared, mean = (percent(some.mean()) for some in (operands[worst <= h], operands))
    return (
        f" From the last token, the heads that are in all formats' best {h} pay {shared} of their attention to "
        f"the two operands, the mean head {mean}."
    )


def paraphrases(results: Results) -> Answer | None:
    """Is a circuit of one paraphrase the circuit of another? None where no paraphrases were measured."""
    if not results.variant_operators:
        return None
    paths = {name: results.folder / "shared" / name / "variants.parquet" for name in results.variant_operators}
    tables = read_tables(paths, VARIANTS)
    rows = pd.concat([table.assign(operator=operator) for operator, table in tables.items()])
    own = rows[(rows["layer"] == POOLED) & (rows["k"] == results.k)]
    measured = own[own["prompts"] > 0]
    wordings, formats = measured[one_format(measured)], measured[two_templates(measured)]
    alike = measured[one_ending(measured)]
    sentence = "In too few prompts two wordings are right, so there is nothing to compare."
    if len(wordings):
        kept = wordings[["effect_of_first", "effect_of_second"]].to_numpy().mean()
        one, two = (rows[["across_halves", "within_halves"]].mean() for rows in (wordings, formats))
        sentence = (
            f"Ranked by different prompts, two wordings of a format have a mean Jaccard of their best {results.k} "
            f"neurons of {one['across_halves']:.2f}, where one wording has {one['within_halves']:.2f} with "
            f"itself. For two formats it is {two['across_halves']:.2f} and {two['within_halves']:.2f}, by chance "
            f"{wordings['chance'].mean():.2f}. One wording's best do {percent(kept)} of what the other's own do."
        )
    if len(alike):
        ends = alike[["across_halves", "within_halves"]].mean()
        sentence += (
            f" Where two formats' prompts end in the same token, it is {ends['across_halves']:.2f} and "
            f"{ends['within_halves']:.2f}."
        )
    shown = [
        "operator",
        "first_format",
        "first",
        "second_format",
        "second",
        "same_final_token",
        "asked",
        "prompts",
        "jaccard",
    ]
    shown += ["low", "high", "chance", "across_halves", "within_halves", "effect_of_first", "effect_of_second"]
    question = "Is a circuit of one paraphrase the circuit of another?"
    return Answer(question, sentence, own[shown], ("variants",))


def _smallest(recovered: pd.Series, wanted: float) -> str:
    """The smallest dose that recovers so much, from recovery by dose."""
    return f"{recovered.index[recovered >= wanted].min():.0%}"


def dose(results: Results) -> Answer | None:
    """How much of the activation must be transferred? None where no doses were given."""
    if "dose" not in results.stages:
        return None
    tables = results.shared("dose", DOSE)
    rows = pd.concat([table.assign(operator=operator) for operator, table in tables.items()])
    cells = rows.groupby(["kind", "dose", "operator", "donor", "target"])["recovered"].mean()
    found = cells.groupby(["dose", "kind"]).mean().unstack("kind")
    whole = float(found["strength"].loc[1])
    sentence = f"All of it mends {percent(whole)} of the wrong answers, so there is no effect to halve."
    if whole > 0:
        strength, best, random = (
            _smallest(found[kind], whole / 2) for kind in ("strength", "neurons", "neurons_random")
        )
        sentence = (
            f"The shared neurons' whole activations (k = {rows['k'].iloc[0]}) mend {percent(whole)} of the wrong "
            "answers (mean over operators and directions). Half of that is reached when every shared neuron moves "
            f"{strength} of the way, or when {best} of them move all the way, the best first, or {random} in a "
            "random order: the smallest doses tried that reach it."
        )
    return Answer("How much of the activation must be transferred?", sentence, found.reset_index(), ("dose",))


def trustworthy(results: Results) -> Answer | None:
    """How much would a first stage miss? None where not every neuron was patched."""
    if "audit" not in results.stages:
        return None
    table = read_table(results.folder / "shared/audit.parquet", AUDIT)
    pooled = table[(table["layer"] == EVERY_LAYER) & (table["k"] == results.k)]
    recall = pooled.groupby("candidates")["recall"].mean()
    enough, near = recall.index[recall >= 0.99].min(), recall.index[recall.index >= results.k].min()
    sentence = (
        f"Every neuron was patched exactly. Of the exact best {results.k} of a layer, {percent(recall[near])} "
        f"are among the best {near} by attribution; {enough} would have had to be let through to keep 99%. The "
        "rank correlation of the first stage's score and the exact effect is "
        f"{pooled['rank_correlation'].mean():.2f}."
    )
    return Answer("Can the ranking's first stage be trusted?", sentence, recall.reset_index(), ("audit",))


def ground_truth(path: Path) -> Answer:
    """Does the pipeline find what was planted? From the planted table; about no model of the run."""
    table = read_table(path, PLANTED)
    table = table[table["layer"] == POOLED].drop(columns="layer")

    def mean(measure: str, circuit: str, column: str = "value") -> str:
        own = table[(table["measure"] == measure) & (table["circuit"] == circuit)]
        return percent(own[column].mean())

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
