"""Contrasts and their intervals, against loops and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, t

from form_invariance.experiment.contrasts import engine
from form_invariance.experiment.contrasts.cells import Cell, Sample
from form_invariance.experiment.contrasts.engine import (
    FEWEST,
    NO_CONTROL,
    SEVERAL,
    Value,
    compare,
    described,
    over_cells,
)
from form_invariance.experiment.contrasts.noise import half_of
from form_invariance.randomness import generator

RESAMPLES = 400


def named(size, cell="cell"):
    """Problems that no other cell has."""
    return [(cell, place) for place in range(size)]


def pair_of(first, second, cell="cell", problems=None, seed=0, control="", draws=None, bounded=True):
    """Two values of each prompt, (P,)."""
    problems = named(len(first), cell) if problems is None else problems
    cell_of = Cell(None, "", "", 0, "", "", "", "", "after", RESAMPLES, seed)
    prompts = list(zip(problems, range(len(first)), strict=True))
    values = cell_of.paired(*(Sample(np.array(one, float)[None], prompts, "") for one in (first, second)), control)
    return replace(compare(*values), draws=draws or {}, bounded=bounded)


def drawn(problems, seed):
    """The prompts of each resample, by the stream of each problem; all prompts where none was drawn."""
    times = np.array([generator(seed, "bootstrap", *problem).poisson(1, RESAMPLES) for problem in problems]).T
    return [np.repeat(np.arange(len(problems)), row if row.any() else 1) for row in times]


def test_a_pair_equals_loops_over_the_resamples():
    rng = np.random.default_rng(0)
    first, second = rng.random(9), rng.random(9)
    first[2], second[5] = np.nan, np.nan
    problems = named(9)
    pair = pair_of(first, second, problems=problems, seed=3)
    assert pair.control == ""
    kept = [place for place in range(9) if place not in (2, 5)]
    assert pair.problems == ([problems[place] for place in kept],)
    assert pair.first[0] == pytest.approx(np.mean([first[place] for place in kept]))
    for resample, chosen in enumerate(drawn(pair.problems[0], 3)):
        assert pair.first[1 + resample] == pytest.approx(np.mean([first[kept[place]] for place in chosen]))
        assert pair.second[1 + resample] == pytest.approx(np.mean([second[kept[place]] for place in chosen]))


def test_a_pair_and_its_reverse_are_one_problem_of_an_operator():
    problems = engine.problems_of("+", np.array([3, 9, 2]), np.array([9, 3, -1]))
    assert problems == [("+", 3, 9), ("+", 3, 9), ("+", -1, 2)]
    # What copies 10 of (10, 11) and what copies 11 of (11, 10) hold two numbers. A table by prompt says the same.
    copied = engine.problems_of("copying", np.array([10, 11, 10]))
    assert copied == [("copying", -1, 10), ("copying", -1, 11), ("copying", -1, 10)]
    assert copied == engine.problems_of("copying", *np.array([one[1:] for one in copied]).T)


def test_a_resample_without_any_problem_of_a_cell_is_the_sample():
    weights = engine.resampling(named(1), RESAMPLES, 0)
    assert (weights > 0).all(), "of one problem, 37 % of the resamples draw none"
    assert engine.resampled(np.array([[5.0]]), weights).ravel().tolist() == [5.0] * (1 + RESAMPLES)


def test_a_pair_without_a_second_value_has_its_first_and_no_difference():
    row = described(pair_of(np.array([1.0, 0.0]), np.full(2, np.nan)))
    assert (row["first"], row["cells"], row["prompts"], row["verdict"]) == (0.5, 0, 0, "undefined")
    assert np.isnan([row[name] for name in ("second", "difference", "low", "high", "limit_error")]).all()
    row = described(over_cells([pair_of(np.empty(0), np.empty(0))]))
    assert (row["cells"], row["prompts"], row["control"], row["verdict"]) == (0, 0, NO_CONTROL, "undefined")


def test_cells_are_fixed_and_only_prompts_are_drawn():
    rng = np.random.default_rng(1)
    cells = [rng.random(6) + 10, rng.random(8) - 10, np.empty(0)]
    pairs = [pair_of(cell, np.zeros(len(cell)), cell=n) for n, cell in enumerate(cells)]
    both = over_cells(pairs)
    assert both.prompts == (6, 8)
    of_cells = zip(drawn(named(6, 0), 0), drawn(named(8, 1), 0), strict=True)
    means = [np.mean([cells[0][first].mean(), cells[1][second].mean()]) for first, second in of_cells]
    np.testing.assert_allclose(both.first[1:], means)
    low, high, _ = engine.limits(both.first, both.problems)
    assert (low, high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
    assert high - low < 1, "the cells differ by 20, so they were not drawn"


@pytest.mark.parametrize(("controls", "name"), [(("a", "a"), "a"), (("a", "b"), SEVERAL), (("", ""), "")])
def test_the_control_over_cells_is_named_where_it_is_the_same(controls, name):
    values = np.arange(5.0)
    pairs = [pair_of(values, values + 1, control=control) for control in controls]
    assert over_cells(pairs).control == name


def test_the_spread_of_draws_is_students():
    means = np.array([0.1, 0.4, 0.3])
    half = half_of({"a": means})
    assert half == pytest.approx(t.ppf(0.975, 2) * means.std(ddof=1) * np.sqrt(4 / 3))
    assert half_of({}) == half_of({"a": np.ones(3)}) == 0
    values = np.random.default_rng(0).random(20)
    plain, wide = (described(pair_of(values, values[::-1], draws=some)) for some in ({}, {"a": means}))
    for limit in ("low", "high"):
        beyond = abs(plain[limit] - plain["difference"])
        assert abs(wide[limit] - wide["difference"]) == pytest.approx(np.hypot(beyond, half))


@pytest.mark.parametrize("draws", [np.array([0.3]), np.array([0.1, np.nan])])
def test_one_draw_tells_no_spread_so_there_is_no_interval(draws):
    values = np.random.default_rng(0).random(20)
    row = described(pair_of(values, values + 1, draws={"a": draws}))
    assert np.isnan([row["low"], row["high"]]).all()
    assert row["verdict"] == "undefined"


def test_draws_of_one_stream_are_the_same_neurons_in_every_cell():
    """Half of the prediction interval of a sum of independent draws has Welch's degrees of freedom."""
    rng, values = np.random.default_rng(0), np.random.default_rng(0).random(20)
    first, second, third = rng.random(4), rng.random(4), rng.random(3)
    names = {"plus": first}, {"plus": second}, {"minus": third}
    both = over_cells([pair_of(values, values, draws=some) for some in names])
    four, three = np.var((first + second) / 3, ddof=1) * 5 / 4, np.var(third / 3, ddof=1) * 4 / 3
    freedom = (four + three) ** 2 / (four**2 / 3 + three**2 / 2)
    sums = {name: values.sum() for name, values in both.draws.items()}
    assert sums == pytest.approx({"plus 4": (first + second).sum() / 3, "minus 3": third.sum() / 3})
    assert half_of(both.draws) == pytest.approx(t.ppf(0.975, freedom) * np.sqrt(four + three))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_limit_error_is_that_of_the_less_certain_limit(sign):
    """The upper end of squares is sparse; the rank of a percentile has the standard deviation of a binomial."""
    drawn, rank = sign * np.linspace(0, 1, 1001) ** 2, (0.025 * 0.975 * 1001) ** 0.5
    _, _, error = engine.limits(np.array([0.5, *drawn]), [[("+", a, 0) for a in range(20)]])
    assert error == pytest.approx(2 * 0.975 * rank / 1000, rel=1e-3)


def test_a_cell_of_fewer_than_five_prompts_has_no_interval_and_no_weight():
    values = np.random.default_rng(0).random(20)
    few, enough, many = (pair_of(values[:n], -values[:n]) for n in (FEWEST - 1, FEWEST, 20))
    row = described(few)
    assert np.isnan([row["low"], row["high"]]).all()
    assert (row["difference"] > 0, row["cells"], row["verdict"]) == (True, 0, "undefined")
    assert described(over_cells([few, many])) == described(many)
    assert described(enough)["verdict"] != "undefined"


@pytest.mark.parametrize("prompts", [10, 30, 200])
def test_a_bootstrap_of_no_width_gives_way_to_the_rule_of_three(prompts):
    row = described(pair_of(np.ones(prompts), np.ones(prompts)))
    assert (row["low"], row["limit_error"]) == (-row["high"], 0)
    assert row["verdict"] == "undecided"
    # The exact bound of a share that was not seen once (Clopper-Pearson, two-sided) is a little below it.
    assert 0.8 * row["high"] <= beta.ppf(0.975, 1, prompts) <= row["high"]
    # A value without bounds has no such rule.
    row = described(pair_of(np.ones(prompts), np.ones(prompts), bounded=False))
    assert np.isnan([row["low"], row["high"]]).all()
    assert row["verdict"] == "undefined"


def test_the_rule_of_three_of_several_cells_is_that_of_the_worst_division_of_the_risk():
    sizes = (10, 20)
    pairs = [pair_of(np.zeros(n), np.zeros(n), cell=n) for n in sizes]
    half = described(over_cells(pairs))["high"]
    # Risks p of the cells whose joint chance of nothing is 2.5 %; the largest mean risk.
    risks = np.linspace(0, 0.35, 300)
    other = 1 - (0.025 / (1 - risks) ** sizes[0]) ** (1 / sizes[1])
    worst = ((risks + np.clip(other, 0, 1)) / 2)[other >= 0].max()
    assert worst <= half <= 1.2 * worst


def test_what_was_not_seen_on_common_problems_may_be_so_in_every_cell():
    """Three cells that ask the same problems bound no more than one cell; one common problem changes little."""
    same = [pair_of(np.zeros(20), np.zeros(20)) for _ in range(3)]
    assert described(over_cells(same))["high"] == pytest.approx(-np.log(0.025) / 20)
    cells = [[("+", 0), *named(19, cell)] for cell in range(10)]
    alike = [pair_of(np.zeros(20), np.zeros(20), problems=problems) for problems in cells]
    assert described(over_cells(alike))["high"] == pytest.approx((1 + (-np.log(0.025) - 1) / 10) / 20)


def test_limits_need_a_value_two_resamples_and_five_prompts():
    spread, problems = np.linspace(0, 1, 40), [named(30)]
    no = [([np.nan, *spread], problems), ([0.5, *spread, np.nan], problems), ([0.5, 0.4], problems)]
    for samples, asked in (*no, ([0.5, *spread], []), ([0.5, *spread], [named(FEWEST - 1)])):
        assert np.isnan(engine.limits(np.array(samples), asked)).all()
    for samples in ([0.5, 0, 1], [0.5, 0, 0, 1], [0.5, 0, 1, 1], [0.5, 0, engine.ROUNDING]):
        low, high, _ = engine.limits(np.array(samples), problems)
        assert 0.94 < (high - low) / max(samples[1:]) < 1
    half = -np.log(0.025) / 30
    assert engine.limits(np.array([0.5, 0.3, 0.3]), problems) == pytest.approx((0.5 - half, 0.5 + half, 0))
    assert engine.verdict(np.nan, 1) == engine.verdict(0.1, np.nan) == "undefined"
    assert engine.verdict(0.2, 1, 0.1) == engine.verdict(-1, -0.2, 0.1) == "undecided"
    assert not np.signbit(described(pair_of(np.zeros(9), -np.zeros(9)))["difference"])


def test_a_limit_within_two_errors_or_rounding_of_zero_is_undecided():
    assert (engine.verdict(2e-6, 3e-6), engine.verdict(-3e-6, -2e-6)) == ("yes", "no")
    assert {engine.verdict(1e-8, 3e-6), engine.verdict(-3e-6, -1e-8, 1e-9)} == {"undecided"}
    assert (engine.verdict(0.1, 0.3, 0.04), engine.verdict(0.1, 0.3, 0.06)) == ("yes", "undecided")
    assert (engine.verdict(-0.3, -0.1, 0.04), engine.verdict(-0.3, -0.1, 0.06)) == ("no", "undecided")
    assert (engine.verdict(-0.1, 0.1), engine.verdict(np.nan, np.nan, np.nan)) == ("undecided", "undefined")


def test_the_strongest_has_the_largest_mean():
    assert engine.strongest({"b": 0.5, "a": 0.5, "c": 0.4, "d": np.nan}) == "a"
    assert engine.strongest({"b": 0.5 + 1e-15, "a": 0.5}) == "a", "rounding does not choose"
    assert engine.strongest({"e": np.nan}) == engine.strongest({}) == NO_CONTROL


def test_a_difference_has_the_draws_of_both_and_the_problems_of_the_fewer():
    streams = {"a": np.array([3.0, 1]), "b": np.array([1.0, 1])}, {"b": np.array([0.0, 2]), "c": np.array([4, 5])}
    first, second = Value(np.full(3, 5), named(7), streams[0]), Value(np.full(3, 2), named(9), streams[1])
    both = first - second
    assert (both.mean.tolist(), both.problems) == ([3, 3, 3], named(7))
    draws = {name: values.tolist() for name, values in both.draws.items()}
    assert draws == {"a": [3, 1], "b": [1, -1], "c": [-4, -5]}
