"""Choose the trials for a configuration: a template for each format and operator."""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.scouting.questions import EXAMPLES, MOST_EXAMPLES, PROBLEMS, AskedQuestion
from form_invariance.scouting.trial import trials

FEWEST = 0.3
"""Share of right answers that a template needs."""
HALF = 0.5
"""If every cell has this share of right answers, smaller operands are not tried."""
AIM = 0.8
"""Preferred share of right answers: it leaves right ones to rank neurons by, and wrong ones to correct."""
SAME = "same"
"""Value of `examples`: the number of worked examples that is best for all cells; formats do not differ in it."""


def counts_of(examples: str | int) -> Sequence[int]:
    """The numbers of worked examples that are tried: `EXAMPLES`, or the single number that `examples` is."""
    text = str(examples)
    if text == SAME:
        return EXAMPLES
    if not re.fullmatch("[0-9]{1,2}", text) or int(text) > MOST_EXAMPLES:
        raise UserError(f"examples: {text[:40]!r} must be {SAME} or a number from 0 to {MOST_EXAMPLES}")
    return (int(text),)


def search(
    model: Decoder,
    tokenizer: PromptTokenizer,
    levels: Mapping[str, Sequence[AskedQuestion]],
    seed: int,
    examples: str | int = SAME,
    show: Callable[[pd.DataFrame], object] = lambda _: None,
    longest: float = math.inf,
) -> tuple[list[AskedQuestion], pd.DataFrame]:
    """Try the questions of one level after another, until a level is good enough (`is_enough`).

    Args:
        levels: questions by a description of their problems, the hardest first.
        examples: as in `counts_of`.
        show: called with the trials of each level.
        longest: seconds after which no trial begins; each level gets an equal share of the time left.

    Returns:
        The chosen questions, of that level, or else of the one with the most chosen cells; and the trials of all
        levels, with the columns level and chosen.
    """
    tables: list[pd.DataFrame] = []
    end = time.monotonic() + longest
    for level, questions in levels.items():
        until = time.monotonic() + max(0.0, end - time.monotonic()) / (len(levels) - len(tables))
        tried = trials(model, tokenizer, questions, seed, counts_of(examples), until).assign(level=level)
        chosen_trials = choose(tried)
        tables.append(tried.assign(chosen=tried.index.isin(chosen_trials.index)))
        show(tables[-1])
        if is_enough(tried, chosen_trials):
            best = len(tables) - 1
            break
    else:
        best = max(range(len(tables)), key=lambda number: tables[number]["chosen"].sum())
    for number, table in enumerate(tables):
        table["chosen"] &= number == best
    all_trials = pd.concat(tables, ignore_index=True)
    if not all_trials["chosen"].any():
        raise UserError(_too_little(all_trials, levels))
    chosen_trials = all_trials[all_trials["chosen"]]
    chosen_questions = [
        question
        for question in levels[chosen_trials["level"].iloc[0]]
        if question.operator in set(chosen_trials["operator"])
    ]
    return chosen_questions, all_trials


def _too_little(tried: pd.DataFrame, levels: Mapping[str, Sequence[AskedQuestion]]) -> str:
    """The error message if no level has enough right answers: the best trial of each format."""
    fits = tried[tried["misfit"] == ""]
    if fits.empty:
        return f"none of the {len(tried)} trials fits the tokenizer, the first because: {tried['misfit'].iloc[0]}"
    best = fits.loc[fits.groupby("format", sort=False)["right"].idxmax()]
    shares = ", ".join(
        f"{row['right']:.0%} in {row['format']} ({row['operator']}, {row['level']}, examples: {row['examples']})"
        for row in best.to_dict("records")
    )
    return (
        f"the model knows too little: two formats need {FEWEST:.0%} right answers in one operator with the same "
        f"number of worked examples, and the best of {len(tried)} trials with {PROBLEMS} problems each "
        f"({', '.join(levels)}) are {shares}; give wordings that the model knows (--template), tables (--table) "
        "or another model"
    )


def choose(trials: pd.DataFrame) -> pd.DataFrame:
    """One trial for each cell, from formats and operators whose cells all reach `FEWEST` right answers.

    All cells get the same number of worked examples: the number with the most cells. Ties are broken by the most
    formats, by the cell farthest from `AIM`, by the sum of distances from `AIM`, and by the smallest number.

    Returns:
        Rows of the trials, one for each cell; none if no two formats share an operator.
    """
    return max((_nearest(group) for _, group in trials.groupby("examples")), key=_quality)


def _quality(chosen_trials: pd.DataFrame) -> tuple[float, ...]:
    """The values that `choose` compares in this order; larger is better."""
    distance = (chosen_trials["right"] - AIM).abs().round(6)
    return len(chosen_trials), chosen_trials["format"].nunique(), -distance.max(), -distance.sum()


def _nearest(trials: pd.DataFrame) -> pd.DataFrame:
    """The trial nearest to `AIM` of each cell; of equally near trials, the one with the fewest tokens.

    The cells are those of at least two formats and of the operators that all of these have. Among all choices of
    formats, the one with the most cells is taken, then the one with the most formats.
    """
    fits = trials[trials["right"] >= FEWEST]
    order = fits.assign(distance=(fits["right"] - AIM).abs().round(6)).sort_values(
        ["distance", "tokens"], kind="stable"
    )
    best = order.drop_duplicates(["format", "operator"]).drop(columns="distance").sort_index()
    operators = best.groupby("format", sort=False)["operator"].agg(list)
    combined = [
        (formats, [name for name in operators[formats[0]] if all(name in operators[form] for form in formats)])
        for size in range(len(operators), 1, -1)
        for formats in combinations(operators.index, size)
    ]
    formats, shared = max(
        combined, key=lambda combination: len(combination[0]) * len(combination[1]), default=((), [])
    )
    return best[best["format"].isin(formats) & best["operator"].isin(shared)]


def left_out(trials: pd.DataFrame, chosen_trials: pd.DataFrame) -> list[str]:
    """Why some formats and operators of a level's trials are not chosen, in a sentence each."""
    tried = trials[trials["examples"].isin(chosen_trials["examples"])]
    formats, operators = (list(chosen_trials[name].unique()) for name in ("format", "operator"))
    cells = {f"format {form}": [(form, operator) for operator in operators] for form in trials["format"].unique()}
    cells |= {
        f"operator {operator}": [(name, operator) for name in formats] for operator in trials["operator"].unique()
    }
    kept = {f"format {form}" for form in formats} | {f"operator {operator}" for operator in operators}
    return [f"{name}: {_worst(tried, pairs)}" for name, pairs in cells.items() if name not in kept]


def untried(questions: Sequence[AskedQuestion], trials: pd.DataFrame, examples: str | int) -> list[str]:
    """A sentence if a level has fewer trials than its questions ask for."""
    wordings = sum(len(texts) for question in questions for texts in question.wordings.values())
    total = wordings * len(counts_of(examples))
    if len(trials) == total:
        return []
    return [f"{total - len(trials)} of {total} trials: more take over a tenth of --minutes"]


def _worst(tried: pd.DataFrame, cells: Sequence[tuple[str, str]]) -> str:
    """Why the cell with the fewest right answers is not chosen."""
    by_cell = {cell: tried[(tried["format"] == cell[0]) & (tried["operator"] == cell[1])] for cell in cells}
    (name, operator), worst = min(
        by_cell.items(), key=lambda cell_trials: cell_trials[1]["right"].max() if len(cell_trials[1]) else -1
    )
    if worst.empty:
        return (
            f"no wording of {operator} in {name} was tried; give one (--template {name}/{operator}=...), or more "
            "--minutes, of which the trials take a tenth"
        )
    best = worst.sort_values("right", ascending=False, kind="stable").iloc[0]
    if (worst["misfit"] != "").all():
        return f"no wording of {operator} in {name} fits the tokenizer: {best['misfit']}"
    return (
        f"the best wording of {operator} in {name} has {best['right']:.0%} right answers (worked examples: "
        f"{best['examples']}), and {FEWEST:.0%} are needed"
    )


def is_enough(trials: pd.DataFrame, chosen_trials: pd.DataFrame) -> bool:
    """Whether every format of the trials is chosen, with at least half of the answers right in every cell."""
    return set(trials["format"]) == set(chosen_trials["format"]) and bool((chosen_trials["right"] >= HALF).all())
