"""The rules that make a question's verdict from its contrasts."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import ROUNDING, verdict
from form_invariance.experiment.contrasts.entries import (
    ALL_LOSS,
    CIRCUITS,
    CONTRASTS,
    DOSE,
    OWN_LOSS,
    PRIMARY,
    SHARED_LOSS,
)
from form_invariance.experiment.contrasts.questions import QUESTIONS, SMALLEST, Part
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.values import RATE
from form_invariance.experiment.intervention_kinds import KNOCKOUT
from form_invariance.tables.columns import ALL

MIXED = "mixed"
"""The verdict over several operators if it is yes for one and no for another."""

AT_FLOOR = "undecided: at the floor"
"""The verdict of a question along the dose where the smallest size loses nearly all that can be lost."""

TINY = "yes, tiny"
"""A yes whose difference is too small to be of interest."""

FEWEST_PAIRS = 10
"""With fewer pairs of transfer in all cells together, a verdict is undefined."""

_LEAST_FIRST = ("no", "undefined", MIXED, AT_FLOOR, "undecided", TINY, "yes")
_CONTRAST = ("question", "intervention", "contrast", "task", "metric", "neurons", "family", "k")
"""The columns that identify a contrast; a table has some of them."""


def deciding_rows(part: Part, contrasts: pd.DataFrame) -> pd.DataFrame:
    """The rows of a question's contrast, with the differences, limits and verdicts that decide the question."""
    criteria = {"contrast": part.contrast, "intervention": part.intervention, "metric": part.of}
    rows = contrasts[(contrasts[[*criteria]] == pd.Series(criteria)).all(axis=1)].assign(control=part.control)
    if part.margin:
        ratios = {"difference": "ratio", "low": "ratio_low", "high": "ratio_high"}
        rows = rows.assign(**{name: rows[ratio] - part.margin for name, ratio in ratios.items()})
        rows = rows.assign(limit_error=rows["ratio_error"])
        rows["verdict"] = list(map(verdict, rows["low"], rows["high"], rows["limit_error"]))
    if part.of == RATE:
        # The bootstrap of one or two pairs has no width, so it would decide.
        few = rows["prompts"] < FEWEST_PAIRS
        rows.loc[few, ["first", "second", "difference", "low", "high"]] = np.nan
        rows.loc[few, "verdict"] = "undefined"
    return rows[rows["verdict"] != "undefined"] if part.optional else rows


HALF, SATURATED = 0.5, 0.8
"""A question along the dose is decided at the size where its neurons' loss is nearest to the first share of what
can be lost. Where every size loses more than the second share, sets cannot be told apart."""


def dose_shares(contrasts: pd.DataFrame, loss: str) -> pd.DataFrame:
    """By size: the share of what can be lost that neurons lose, or of what can be kept that they keep alone.

    Args:
        loss: the contrast that has the neurons' loss.

    Returns:
        Columns operator, intervention, k, share (over formats) and floor: whether the share over formats, or that
        of most cells, exceeds `SATURATED`.
    """
    rows = contrasts[contrasts["metric"] == PRIMARY]
    cell_and_size = ["format", "operator", "k"]
    all_lost = rows[rows["contrast"] == ALL_LOSS].set_index(cell_and_size)["first"]
    losses = rows[rows["contrast"] == loss].join(all_lost.rename("most"), on=cell_and_size)
    # Keep-only is measured as a change from the unmodified model; keeping nothing loses what all neurons cost.
    lost = losses["first"].where(losses["intervention"] == KNOCKOUT, losses["most"] + losses["first"])
    losses = losses.assign(share=lost / losses["most"].where(losses["most"] > ROUNDING))
    cells = losses[(losses["format"] != ALL) & (losses["operator"] != ALL)]
    cells = cells.assign(full=cells["share"] > SATURATED)
    size = ["operator", "intervention", "k"]
    pooled = losses[losses["format"] == ALL].join(
        pd.concat([cells, cells.assign(operator=ALL)]).groupby(size)["full"].mean(), on=size
    )
    floor = (pooled["share"] > SATURATED) | (pooled["full"] > 0.5)
    return pooled.assign(floor=floor)[[*size, "share", "floor"]]


def _at_dose(rows: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    """The rows of a contrast along the dose at the size that decides for their operator, with the share there."""
    table = rows.merge(shares, how="left", on=["operator", "intervention", "k"])
    table = table.assign(distance=(table["share"] - HALF).abs().fillna(np.inf))
    table = table.sort_values(["distance", "k"], kind="stable")
    return table.groupby(["format", "operator"], sort=False).head(1).drop(columns="distance")


def _at_task_size(rows: pd.DataFrame, k: int) -> pd.DataFrame:
    """The rows of a contrast on tasks at the circuit size, or else at the largest size that was measured."""
    sizes = set(rows["k"])
    return rows[rows["k"] == (k if k in sizes else max(sizes, default=k))]


def question_rows(contrasts: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of every question that contrasts decide, with the columns question and metric of verdicts.

    `k` is a circuit size of the run, and `at_k` the size at which the question is decided.
    """
    circuits = [name for name, entry in CONTRASTS.items() if entry.sizes == CIRCUITS]
    shares = {loss: dose_shares(contrasts, loss) for loss in (OWN_LOSS, SHARED_LOSS)}
    ks = sorted(set(contrasts.loc[contrasts["contrast"].isin(circuits), "k"]))
    for name, question in QUESTIONS.items():
        for metric, part in question.parts.items():
            if not part.contrast:
                continue
            rows, entry = deciding_rows(part, contrasts), CONTRASTS[part.contrast]
            sizes = entry.sizes
            for k in ks:
                if sizes == CIRCUITS:
                    there = rows[rows["k"] == k]
                else:
                    there = _at_dose(rows, shares[entry.halved]) if sizes == DOSE else _at_task_size(rows, k)
                floor = there["floor"].eq(True) if sizes == DOSE else pd.Series(False, there.index)
                floored = there["verdict"].mask(floor & (there["verdict"] != "undefined"), AT_FLOOR)
                yield there.assign(question=name, metric=metric, at_k=there["k"], k=k, verdict=floored)


def worded(verdict: str, difference: float) -> str:
    """A verdict in the words of texts: a *yes* by a small difference is tiny."""
    return TINY if verdict == "yes" and difference < SMALLEST else verdict


def with_mixed(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts with the verdict `MIXED` over all operators where one operator's is yes and another's is no."""
    over = contrasts["format"] == ALL if "format" in contrasts else True
    keys = [contrasts[name] for name in _CONTRAST if name in contrasts]
    pooled = contrasts["operator"] == ALL
    of_operator = contrasts["verdict"].where(over & ~pooled)
    yes, no = (of_operator.eq(word).groupby(keys).transform("any") for word in ("yes", "no"))
    return contrasts.assign(verdict=contrasts["verdict"].mask(over & pooled & yes & no, MIXED))


def in_words(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts with the verdicts of the report's first table, which may also be mixed or tiny.

    Only differences of accuracies, probabilities and rates can be tiny.
    """
    mixed = with_mixed(contrasts)
    words = [worded(*row) for row in zip(mixed["verdict"], mixed["difference"], strict=True)]
    others = ~mixed["metric"].isin(["accuracy", PRIMARY, RATE])
    return mixed.assign(verdict=pd.Series(words, mixed.index, object).mask(others, mixed["verdict"]))


def decided(contrasts: pd.DataFrame, k: int) -> pd.DataFrame:
    """The rows over all cells that decide every question at a circuit size, with the words of texts."""
    rows = in_words(pd.concat(question_rows(contrasts), ignore_index=True))
    return overall(rows[rows["k"] == k])


def deciding(contrasts: pd.DataFrame) -> pd.Series:
    """Among several contrasts with verdicts, the one that favours the circuit least."""
    placed = contrasts.assign(place=contrasts["verdict"].map(_LEAST_FIRST.index))
    return placed.sort_values(["place", "low"], kind="stable").drop(columns="place").iloc[0]
