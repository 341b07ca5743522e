from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from plain_heuristics import plain_labels, plain_strict, remains, strict_classes, strict_multi

from form_invariance.errors import UserError
from form_invariance.stages.heuristics import published, strict
from form_invariance.stages.heuristics.answer_sets import answer_set
from form_invariance.stages.heuristics.names import EXPRESSIONS
from form_invariance.stages.heuristics.null import make_null
from form_invariance.stages.heuristics.pairs import Grid, kind_of, make_grid, published_part
from form_invariance.stages.heuristics.ranking import rank, ranked

pytestmark = pytest.mark.slow

ANY = [*EXPRESSIONS.values(), "max(a, b)"]
GOLDEN = Path(__file__).parents[1] / "data/heuristics"


def mixed_maps(grid):
    """K and KV maps (8, N) of noise, ties, and planted classes at either end."""
    a, b, answer = grid.a, grid.b, grid.answer
    operand = [0 * a, a % 7 == 3, -1 * ((10 <= b) & (b < 20)), (a % 3 == 1) & (b % 3 == 1), a == b, -1 * (a == 17)]
    operand += [b % 10 == 4, 1 * ((a % 10 == 0) & (a < 20)) - 1 * ((a == 20) & (b % 2 == 0))]
    result = [np.isin(answer, (0, 1, 3)), answer % 7 == 2, (10 <= answer) & (answer < 20), 0 * a, answer == 0]
    result += [np.isin(answer, (0, 1)), np.isin(answer, (2, 3)), 2 * (answer == 0) + (a < 5)]
    rng = np.random.default_rng(1)
    operand, result = (rng.normal(size=(8, len(a))) + 6 * np.stack(classes) for classes in (operand, result))
    operand[0], result[0] = operand[0].round(), result[0].round()
    return operand.astype(np.float32), result.astype(np.float32)


@pytest.mark.parametrize("operator", EXPRESSIONS)
def test_published_scores_equal_the_golden_data(operator):
    table = pd.read_parquet(GOLDEN / f"{operator}_activations.parquet").sort_values(["op1", "op2"])
    grid = Grid(*table[["op1", "op2", "result"]].to_numpy(np.int64).T, operator, 100)
    maps = ranked(table.iloc[:, 3:].to_numpy(np.float32).T)
    theirs, keys = pd.read_parquet(GOLDEN / f"{operator}_scores.parquet"), ["neuron", "heuristic", "score"]
    tables = published.score(maps, maps, grid), published.score(maps, maps, grid, floor=0.3), theirs
    ours, floored, theirs = (one.sort_values(keys, ignore_index=True) for one in tables)
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, check_exact=True)
    expected = ours.query("score >= 0.3").reset_index(drop=True)
    pd.testing.assert_frame_equal(floored, expected, check_dtype=False)


def test_no_neuron_has_no_published_score():
    table = published.score([], [], make_grid("a + b", 10))
    assert table.dtypes.map(str).to_dict() == {"neuron": "int64", "heuristic": "str", "score": "float64"}
    assert table.empty


def test_of_a_neuron_for_the_answer_zero_what_all_zeros_share_counts_nothing():
    """Only the first of two rows with one name is zeroed; other neurons keep theirs."""
    names = ["result_value_000", "result_0mod3", "result_0mod3", "op1_0mod3", "result_value_000", "result_0mod3"]
    given = {"neuron": [0, 0, 0, 0, 1, 1], "heuristic": names, "score": [1, 0.7, 0.6, 0.5, 0.9, 0.7]}
    found = published._cancel_zeros(pd.DataFrame(given))
    assert found["score"].tolist() == [1, 0, 0.6, 0.5, 0.9, 0.7]


@pytest.mark.parametrize("several", range(1, 8))
def test_the_published_sets_have_two_to_five_answers(several):
    """A set has 95 % of the top thousand pairs, and no smaller set has."""
    answer = np.append(np.arange(1000) % several, 9)
    found = published._multi(np.arange(1001)[None], Grid(answer, answer, answer, "division", 10))
    sets = [(0, f"result_multi_value_{several}={[*range(several)]}", pytest.approx(1))]
    assert found == (sets if 1 < several < 6 else [])


def test_pairs_are_ordered_by_activation_and_ties_by_the_grid():
    rng = np.random.default_rng(0)
    maps = np.stack(
        [rng.integers(-1, 2, 400), rng.normal(size=400), np.zeros(400), rng.integers(0, 2, 400) * -0.0]
    )
    maps[1, :6] = [-np.inf, -1e-42, -0.25, 1e-42, 3e38, np.inf]
    for values in maps.astype(np.float32):
        found, kept = rank(values), rng.random(400) < 0.5
        np.testing.assert_array_equal(found.order, np.argsort(-values, kind="stable"))
        np.testing.assert_array_equal(found.among(kept).order, np.argsort(-values[kept], kind="stable"))
        for one, own in ((found, values), (found.among(kept), values[kept])):
            starts = np.flatnonzero(np.diff(np.sort(-own), prepend=np.inf, append=np.inf))
            np.testing.assert_array_equal(np.arange(len(own) + 1) if one.starts is None else one.starts, starts)


SMALL = [("a * 900 + b * 90", 40), ("a // b", 4), ("a + b", 3)]  # fewer pairs than a class looks at, few answers


@pytest.mark.parametrize(
    ("expression", "max_operand"),
    [*product(ANY, [11]), *SMALL, *(pytest.param(one, 30, marks=pytest.mark.nightly) for one in ANY)],
)
def test_strict_scores_and_labels_equal_sets_of_pairs(expression, max_operand):
    grid = make_grid(expression, max_operand)
    operand, result = mixed_maps(grid)
    null = make_null(grid, maps=(60, 170))
    rankings = ranked(operand), ranked(result)
    table = strict.score(*rankings, grid, null, threshold=0.5)
    known = strict_classes(grid)
    for neuron, maps in enumerate(zip(operand, result, strict=True)):
        found = plain_strict(grid, known, *maps)
        rows = table[table["neuron"] == neuron].set_index("heuristic")
        significant = rows.index[rows["p_value"] <= 0.01]
        assert set(rows.index[rows["label"]]) == plain_labels(found, significant, threshold=0.5)
        assert set(rows.index) == set(found)
        expected = np.array([found[name][:2] for name in rows.index]).reshape(-1, 2)
        np.testing.assert_allclose(rows[["score", "base_rate"]], expected, rtol=1e-9)
        np.testing.assert_allclose(rows["lift"], expected[:, 0] / expected[:, 1])
    floored = strict.score(*rankings, grid, null, threshold=0.5, floor=0.55)
    pd.testing.assert_frame_equal(floored, table.query("score >= 0.55").reset_index(drop=True))


@pytest.mark.parametrize("expression", ANY)
def test_the_grid_is_all_pairs_with_an_answer(expression):
    grid = make_grid(expression, 40)
    operands = range(1 if expression == "a // b" else 0, 40)
    pairs = [(a, b, eval(expression, {"a": a, "b": b, "max": max})) for a, b in product(operands, repeat=2)]
    expected = [pair for pair in pairs if 0 <= pair[2] <= 999]
    assert list(zip(grid.a.tolist(), grid.b.tolist(), grid.answer.tolist(), strict=True)) == expected
    assert ({**EXPRESSIONS, "other": "max(a, b)"}[grid.kind], grid.max_operand) == (expression, 40)
    assert kind_of(expression.replace(" ", "")) == kind_of(f" {expression}  ") == grid.kind


def test_the_published_grid_of_addition_alone_ends_one_short():
    for expression, largest in (("a + b", 998), ("a * b", 999)):
        assert published_part(make_grid(expression, 501))[1].answer.max() == largest
    with pytest.raises(UserError, match=r"^heuristics: no pair of operands below 3 has an answer in 0\.\.999$"):
        make_grid("a + b + 1000", 3)


@pytest.mark.parametrize("max_operand", [8, 60, 110])  # a tenth of the pairs are fewer or more than a thousand
def test_sets_of_answers_equal_plain_ones(max_operand):
    grid = make_grid("a // b", max_operand)
    rng, several = np.random.default_rng(0), set()
    for neuron in range({8: 30, 60: 21, 110: 4}[max_operand]):
        answers = np.arange(3, 8) if max_operand == 8 else 12
        favoured = np.isin(grid.answer, rng.choice(answers, size=1 + neuron % 5, replace=False))
        values = rng.normal(size=len(grid.a)) + rng.choice([2.0, 4.0, 8.0]) * favoured
        # Every third map has ties at the cut of a set.
        values = np.maximum(values, np.quantile(values, 0.93)) if neuron % 3 == 0 else values
        values = values.astype(np.float32)
        expected = strict_multi(grid, dict(enumerate(values.tolist())))
        found, score = answer_set(rank(values), grid) or (None, 0)
        assert ([found.name] if found else []) == [*expected]
        for name, places in expected.items():
            assert np.flatnonzero(found.members).tolist() == sorted(places)
            assert found.size == len(places)
            assert score == pytest.approx(plain_strict(grid, {}, values, values)[name][0])
            several.add(name.removeprefix("result_multi_value_")[0] if max_operand > 8 else len(places))
    assert several >= {8: {5}, 60: {*"2345"}, 110: {"5"}}[max_operand]


def test_what_remains_of_a_class_equals_the_plain_way():
    rng = np.random.default_rng(0)
    found = []
    for trial in range(400):
        own, explained = rng.random((2, 60)) < rng.choice([0.05, 0.3, 0.6, 1.0], size=(2, 1))
        values = (rng.normal(size=60) + rng.choice([0, 2, 4]) * own).round(int(rng.integers(3))).astype(np.float32)
        places, gone = (frozenset(np.flatnonzero(mask).tolist()) for mask in (own, explained))
        expected = remains(places, gone, dict(enumerate(values.tolist())), 0.5)
        assert strict._remains(own, explained, rank(values), 0.5) == expected, trial
        assert strict._remains(own, explained, rank(-values), 0.5, bottom=True) == expected, trial
        found.append(expected)
    assert 50 < sum(found) < 350


def test_a_label_needs_the_threshold_beyond_chance_and_no_more():
    grid, rng = make_grid("max(a, b)", 16), np.random.default_rng(0)
    even, top = grid.a % 2 == 0, np.zeros(256, dtype=bool)
    for half, size in ((even, 96), (~even, 32)):  # three quarters of the top half
        top[rng.permutation(np.flatnonzero(half))[:size]] = True
    maps = (top + 0.001 * rng.random(256))[None].astype(np.float32)
    null = make_null(grid, maps=(300, 1200))
    for threshold, label in ((0.5, True), (0.501, False)):
        table = strict.score(ranked(maps), ranked(0 * maps), grid, null, threshold).set_index("heuristic")
        assert table.loc["op1_0mod2", ["score", "base_rate", "label"]].tolist() == [0.75, 0.5, label]
