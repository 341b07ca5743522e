"""Which trials a configuration is made of: a template for each format and operator."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.scouting.questions import PROBLEMS, Question
from form_invariance.scouting.trial import trials

FEWEST = 0.3
"""Share of right answers that a template needs."""
HALF = 0.5
"""Share of right answers of operands that are large enough: smaller ones are not tried."""
AIM = 0.8
"""The share that is preferred: it leaves right answers to rank neurons by, and wrong ones to correct."""


def search(
    model: Decoder,
    tokenizer: PromptTokenizer,
    levels: Mapping[str, Sequence[Question]],
    seed: int,
    show: Callable[[pd.DataFrame], object] = lambda _: None,
) -> tuple[list[Question], pd.DataFrame]:
    """Try the questions of one level after another, until one is good enough (`is_enough`).

    Args:
        levels: questions by what their problems are, the hardest first.
        show: called with the trials of each level.

    Returns:
        The chosen questions, of that level, or else of the one with the most chosen cells; and the trials of all
        levels, with the columns level and chosen.

    Raises:
        UserError: no level has two formats with an operator in common.
    """
    found: list[pd.DataFrame] = []
    for level, questions in levels.items():
        tried = trials(model, tokenizer, questions, seed).assign(level=level)
        chosen = choose(tried)
        found.append(tried.assign(chosen=tried.index.isin(chosen.index)))
        show(found[-1])
        if is_enough(tried, chosen):
            break
    best = max(range(len(found)), key=lambda place: found[place]["chosen"].sum())
    for place, one in enumerate(found):
        one["chosen"] &= place == best
    every = pd.concat(found, ignore_index=True)
    if not every["chosen"].any():
        raise UserError(_too_little(every, levels))
    chosen = every[every["chosen"]]
    asked = [one for one in levels[chosen["level"].iloc[0]] if one.operator in set(chosen["operator"])]
    return asked, every


def _too_little(tried: pd.DataFrame, levels: Mapping[str, Sequence[Question]]) -> str:
    """What was tried, and how far it was from enough."""
    fits = tried[tried["misfit"] == ""]
    if fits.empty:
        return f"none of the {len(tried)} trials fits the tokenizer, the first because: {tried['misfit'].iloc[0]}"
    best = fits.loc[fits.groupby("format", sort=False)["right"].idxmax()]
    shares = ", ".join(
        f"{row['right']:.0%} in {row['format']} ({row['operator']}, {row['level']}, examples: {row['examples']})"
        for row in best.to_dict("records")
    )
    return (
        f"the model knows too little: two formats need {FEWEST:.0%} right answers in one operator, and the best "
        f"of {len(tried)} trials with {PROBLEMS} problems each ({', '.join(levels)}) are {shares}; give wordings "
        "that the model knows (--template), tables (--table) or another model"
    )


def choose(trials: pd.DataFrame) -> pd.DataFrame:
    """The trial nearest to `AIM` of each format and operator, of those formats and operators that all have one.

    With equal shares, the fewer tokens. At least two formats are needed; of several combinations, the one with the
    most cells is taken, and then the one with the most formats.

    Returns:
        Rows of the trials, one for each cell; none if no two formats share an operator.
    """
    fits = trials[trials["right"] >= FEWEST]
    order = fits.assign(distance=(fits["right"] - AIM).abs().round(6)).sort_values(
        ["distance", "tokens"], kind="stable"
    )
    best = order.drop_duplicates(["format", "operator"]).drop(columns="distance").sort_index()
    operators = best.groupby("format", sort=False)["operator"].agg(list)
    combined = [
        (formats, [one for one in operators[formats[0]] if all(one in operators[name] for name in formats)])
        for size in range(len(operators), 1, -1)
        for formats in combinations(operators.index, size)
    ]
    formats, shared = max(combined, key=lambda one: len(one[0]) * len(one[1]), default=((), []))
    return best[best["format"].isin(formats) & best["operator"].isin(shared)]


def is_enough(trials: pd.DataFrame, chosen: pd.DataFrame) -> bool:
    """Whether every format of the trials is chosen, with at least half of the answers right in every cell."""
    return set(trials["format"]) == set(chosen["format"]) and bool((chosen["right"] >= HALF).all())
