"""A value against the strongest of several rivals: rates of false verdicts."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from form_invariance.experiment.contrasts.engine import Value, compare, resampled, resampling
from form_invariance.experiment.contrasts.rivals import rival_rows
from form_invariance.tables.columns import ALL

OPERATORS, FORMATS, PROMPTS, SPREAD = "abcdef", "scw", 16, 0.4
ERROR = SPREAD * np.sqrt(2 / (PROMPTS * len(FORMATS)))
"""Standard error of a difference over all cells of one operator, of independent prompts."""
TRUTHS = {
    "all equal": ([0, 0, 0], 4),
    "the strongest equal, others weaker by 1 error": ([0, 1, 1], 4),
    "the strongest equal, others weaker by 8 errors": ([0, 8, 8], 4),
    "two operators, equal": ([0], 2),
    "own below by 4 errors": ([-4, 1, 1], 4),
    "own above by 4 errors": ([4, 4, 4], 4),
    "own above by 6 errors": ([6, 6, 6], 4),
}
"""How many standard errors over all cells the own value exceeds each rival; and how many operators there are."""
LEVEL = 0.09
"""Standard deviation of what the rankings alone give a set on all prompts of an operator, where they are noisy."""


def cells_of(rng, differences, operators, level=0.0, resamples=400):
    """The pairs by rival of every cell: a problem is hard for all sets and in all formats alike."""
    errors = ERROR / operators**0.5
    cells = {}
    for operator in OPERATORS[:operators]:
        problems = [(operator, 1, number) for number in range(PROMPTS)]
        weights = resampling(problems, resamples, int(rng.integers(2**31)))
        hard = rng.normal(size=PROMPTS) * SPREAD
        names = [f"{operator}'s rival {place}" for place in range(len(differences))]
        by_half = level * 2**0.5 * rng.normal(size=(1 + len(names), 2))
        for form in FORMATS:
            own, *others = rng.normal(size=(1 + len(names), PROMPTS)) * SPREAD + hard + by_half.mean(1)[:, None]
            values = [Value(resampled(own, weights), problems)]
            values += [
                Value(resampled(other - less * errors, weights), problems)
                for other, less in zip(others, differences, strict=True)
            ]
            for place, name in enumerate(names, 1):
                halves = {"rankings": by_half[[0, place]], "means": np.full((2, 2), np.nan)}
                pair = replace(compare(values[0], values[place]), halves=halves)
                cells.setdefault((form, operator), {})[name] = pair
    return cells


def over_all(cells):
    return next(row for row in rival_rows(cells) if row["format"] == row["operator"] == ALL)


@pytest.mark.parametrize("trials", [60, pytest.param(1000, marks=pytest.mark.nightly)])
def test_false_verdicts_are_rare(trials):
    """The table of docs/results.md: shares of yes and of no."""
    rows = []
    for name, (differences, operators) in TRUTHS.items():
        drawn = (cells_of(np.random.default_rng(seed), differences, operators) for seed in range(trials))
        words = pd.Series(over_all(cells)["verdict"] for cells in drawn)
        rows.append({"truth": name, "yes": words.eq("yes").mean(), "no": words.eq("no").mean()})
    table = pd.DataFrame(rows).set_index("truth")
    print(table.round(3).to_string())
    most = 0.05 + norm.ppf(0.99) * np.sqrt(0.05 * 0.95 / trials)
    for name, (differences, _) in TRUTHS.items():
        if min(differences) <= 0:
            assert table.loc[name, "yes"] <= most, name
        if min(differences) >= 0:
            assert table.loc[name, "no"] <= most, name
    assert table.loc["own above by 6 errors", "yes"] > 0.7
    assert table.loc["own below by 4 errors", "no"] > 0.7


@pytest.mark.parametrize(
    ("operators", "trials"), [(4, 40), *(pytest.param(n, 100, marks=pytest.mark.nightly) for n in (2, 3, 5, 6))]
)
def test_a_rival_is_not_the_strongest_by_its_ranking_alone(operators, trials):
    equal = [0] * (operators - 1)
    drawn = (cells_of(np.random.default_rng(seed), equal, operators, LEVEL, 200) for seed in range(trials))
    words = pd.Series(over_all(cells)["verdict"] for cells in drawn)
    print(operators, words.value_counts().to_dict())
    most = 0.05 + norm.ppf(0.99) * np.sqrt(0.05 * 0.95 / trials)
    assert words.eq("yes").mean() <= most
    assert words.eq("no").mean() <= most
