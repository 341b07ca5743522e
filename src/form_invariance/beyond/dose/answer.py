"""Answers along the dose: exchange, shared against other best neurons, one operator's neurons, direct writing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.answers import FIXED, Answer, percent
from form_invariance.experiment.contrasts.entries import ALL_LOSS, OWN_LOSS, PRIMARY
from form_invariance.experiment.contrasts.entries import CONTRASTS as ENTRIES
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.verdicts import AT_FLOOR, decided
from form_invariance.experiment.intervention_kinds import DIRECT, KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.neuron_sets import LAYERS_OF_BEST
from form_invariance.tables.columns import ALL

INPUTS = {"contrasts": CONTRASTS}
NOT_TESTABLE = "Undefined: no control could be drawn, a cell has too few prompts, or nothing can be lost."
ContrastRows = Mapping[tuple[str, str], dict[Any, Any]]
"""The row that decides each question, by question and metric."""


def _ratio(row: Mapping[Any, Any]) -> str:
    if np.isnan(row["ratio"]):
        return "no ratio, because the own best's interval is not above zero"
    return f"ratio {row['ratio']:z.2f} [{row['ratio_low']:z.2f}, {row['ratio_high']:z.2f}]"


def _difference(row: Mapping[Any, Any]) -> str:
    interval = "no interval" if np.isnan(row["low"]) else f"{row['low']:z.3f}, {row['high']:z.3f}"
    return f"{row['difference']:z.3f} [{interval}]: {row['verdict']}"


def _where(row: Mapping[Any, Any]) -> str:
    """The size that decides, and the share of what can be lost (kept) that the question's neurons lose (keep)."""
    can = "kept" if row["intervention"] == KEEP_ONLY else "lost"
    note = ", so no size tells sets apart" if row["verdict"] == AT_FLOOR else ""
    neurons = "own best" if ENTRIES[row["contrast"]].halved == OWN_LOSS else "shared"
    return f"at k = {row['at_k']} ({neurons}: {percent(row['share'])} of what can be {can}{note})"


def _measured(rows: pd.DataFrame) -> ContrastRows:
    return {(row["question"], row["metric"]): row for row in rows[rows["cells"] > 0].to_dict("records")}


_DID = {KNOCKOUT: ("Knocked out", "cost"), KEEP_ONLY: ("Kept alone", "keep")}


def _exchange(rows: ContrastRows, primary: pd.DataFrame) -> Answer:
    """Other formats' best against the own best."""
    sentences = []
    for metric in (PRIMARY, f"{PRIMARY} kept"):
        if (row := rows.get(("exchange", metric))) is not None:
            opening, verb = _DID[row["intervention"]]
            sentences.append(
                f"{opening} {_where(row)}, other formats' best {verb} {row['first']:z.3f} more probability than "
                f"the strongest control, the own best {row['second']:z.3f}: {_ratio(row)}."
            )
    if (row := rows.get(("exchange", f"{PRIMARY} beyond operator"))) is not None:
        sentences.append(
            f"Knocked out {_where(row)}, other operators' best in these formats cost {row['second']:z.3f}, the "
            f"operator's own there {row['first']:z.3f}: difference {_difference(row)}."
        )
    sentence = " ".join(sentences) or NOT_TESTABLE
    shown = primary[primary["contrast"].str.match("exchanged|half_minus|other_formats|other_operators")]
    return Answer(QUESTIONS["exchange"].label, sentence, _over_formats(shown), ("dose",))


def _shared(rows: ContrastRows, primary: pd.DataFrame) -> Answer:
    """The shared neurons against as many of the own best."""
    row, sentence = rows.get(("shared", PRIMARY)), "Undefined: no neuron is shared."
    if row is not None:
        sentence = (
            f"Knocked out {_where(row)}, the shared neurons cost {row['first']:z.3f} probability, as many random "
            f"members of the own best {row['second']:z.3f}: difference {_difference(row)}."
        )
    shown = primary[primary["contrast"].str.match("shared_minus|loss_of_(shared|best_not|part_of)")]
    return Answer(QUESTIONS["shared"].label, sentence, _over_formats(shown), ("dose",))


def _specific(rows: ContrastRows, primary: pd.DataFrame) -> Answer:
    """The operator's shared neurons against other operators'."""
    sentences = []
    if (row := rows.get(("specific", PRIMARY))) is not None:
        sentences.append(
            f"Knocked out {_where(row)}, an operator's shared neurons cost its own answers {row['first']:z.3f}, "
            f"the strongest choice of other operators' {row['second']:z.3f}: least difference over all choices "
            f"{_difference(row)}."
        )
    if (row := rows.get(("specific", f"{PRIMARY} beyond control"))) is not None:
        sentences.append(
            f"Beyond matched controls, they cost the own answers {row['first']:z.3f} and the other operators' "
            f"{row['second']:z.3f}: difference {_difference(row)}."
        )
    sentence = " ".join(sentences) or "Undefined: no neuron is shared, or there is no other operator."
    shown = primary[primary["contrast"].str.match("own_minus_other")]
    return Answer(QUESTIONS["specific"].label, sentence, _over_formats(shown), ("dose",))


def _written(rows: ContrastRows, primary: pd.DataFrame) -> Answer:
    """What a knockout costs past all later layers, and by groups of layers."""
    label = "Do these neurons write the answer?"
    table = overall(primary[primary["cells"] > 0])
    direct = table[table["intervention"] == DIRECT].set_index("k")["first"]
    row = rows.get(("exchange", PRIMARY))
    if row is None or row["at_k"] not in direct.index:
        return Answer(label, NOT_TESTABLE, pd.DataFrame())
    at_k = row["at_k"]
    losses = table[(table["k"] == at_k) & (table["intervention"] == KNOCKOUT)].set_index("contrast")["first"]
    groups = losses[losses.index.str.startswith(f"loss_of_{LAYERS_OF_BEST}")]
    names = groups.index.str.removeprefix(f"loss_of_{LAYERS_OF_BEST}").str.split("_to_")
    spans = [" to ".join(dict.fromkeys(span)) for span in names]
    listed = "; ".join(f"layer {span} {value:z.2f}" for span, value in zip(spans, groups, strict=True))
    sentence = (
        f"At k = {at_k} the own best cost {losses[OWN_LOSS]:z.2f} probability (all late neurons: "
        f"{losses[ALL_LOSS]:z.2f}). Where the change reaches the final residual stream alone, past all later "
        f"layers, it costs {direct[at_k]:z.2f}. An equal cost means that the neurons write the answer; what "
        f"computes it is not shown. Knocked out in some layers alone: {listed}. {FIXED.capitalize()}."
    )
    return Answer(label, sentence, _over_formats(primary[primary["contrast"].str.match("loss_of")]), ("dose",))


def _over_formats(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows over formats, without columns that are the same in all."""
    return rows[rows["format"] == ALL].drop(columns=["format", "task", "metric", "limit_error", "ratio_error"])


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Exchange between formats, the shared and the rest, operators, and what is written."""
    contrasts = tables["contrasts"]
    rows, primary = _measured(decided(contrasts, k)), contrasts[contrasts["metric"] == PRIMARY]
    return [of(rows, primary) for of in (_exchange, _shared, _specific, _written)]
