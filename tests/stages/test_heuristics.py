"""Heuristic scores against the golden data where it is present, and a plain rendering."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nights import at_night
from plain_heuristics import (
    frequent_patterns,
    plain_labels,
    plain_published,
    plain_strict,
    published_classes,
    published_multi,
    remains,
    strict_classes,
    strict_multi,
    wildcards,
)
from scipy.stats import binom

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.stages.heuristics import classes, published, strict
from form_invariance.stages.heuristics import null as nulls
from form_invariance.stages.heuristics.answer_sets import answer_sets
from form_invariance.stages.heuristics.maps import read_maps
from form_invariance.stages.heuristics.names import EXPRESSIONS, family, of_result
from form_invariance.stages.heuristics.null import evidence, make_null
from form_invariance.stages.heuristics.pairs import kind_of, make_grid, published_part
from form_invariance.stages.heuristics.rules import make_rules
from form_invariance.stages.heuristics.table import strict_labels
from form_invariance.stages.heuristics.ties import rank

pytestmark = pytest.mark.slow

ANY = [*EXPRESSIONS.values(), "max(a, b)"]
GOLDEN = Path(__file__).parents[1] / "data/heuristics"


@pytest.mark.parametrize("operator", EXPRESSIONS)
def test_published_scores_equal_the_golden_data(operator, tmp_path):
    arguments = ["heuristics", "score", "--reference", "--operator", operator, "--max-operand", "100"]
    files = [
        "--activations",
        str(GOLDEN / f"{operator}_activations.parquet"),
        "--output",
        str(tmp_path / "s.parquet"),
    ]
    assert main([*arguments, *files]) == 0
    ours, theirs = pd.read_parquet(tmp_path / "s.parquet"), pd.read_parquet(GOLDEN / f"{operator}_scores.parquet")
    assert ours["neuron"].tolist() == theirs["neuron"].tolist()
    assert ours["heuristic"].tolist() == theirs["heuristic"].tolist()
    np.testing.assert_allclose(ours["score"], theirs["score"], atol=1e-9, rtol=0)


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


ALL_SIZES = [*product(ANY, [11]), *at_night(product(ANY, [30]))]
SMALL = [("a * 900 + b * 90", 40), ("a // b", 4), ("a + b", 3)]  # fewer pairs than a class looks at, few answers


@pytest.mark.parametrize(("expression", "max_operand"), [*((one, 40) for one in ANY), *SMALL])
def test_published_scores_equal_a_plain_rendering(expression, max_operand, monkeypatch):
    monkeypatch.setattr(classes, "ROWS", 3)
    grid = published_part(make_grid(expression, max_operand))[1]
    operand, result = mixed_maps(grid)
    table = published.score(operand, result, grid)
    known = published_classes(grid)
    rows = [
        (neuron, name, score)
        for neuron, maps in enumerate(zip(operand, result, strict=True))
        for name, score in plain_published(grid, known, *maps)
    ]
    first = {name: place for place, name in reversed([*enumerate(name for _, name, _ in rows)])}
    rows.sort(key=lambda row: (first[row[1]], row[0]))
    assert list(zip(table["neuron"], table["heuristic"], strict=True)) == [row[:2] for row in rows]
    np.testing.assert_allclose(table["score"], [row[2] for row in rows], atol=1e-6, rtol=0)
    floored = published.score(operand, result, grid, floor=0.3)
    pd.testing.assert_frame_equal(
        floored.sort_values(["neuron", "heuristic", "score"], ignore_index=True),
        table.query("score >= 0.3").sort_values(["neuron", "heuristic", "score"], ignore_index=True),
    )


@pytest.mark.parametrize(
    ("expression", "max_operand"), [*product(ANY, [11]), *at_night(product(ANY, [30])), *SMALL]
)
def test_strict_scores_and_labels_equal_a_plain_rendering(expression, max_operand, monkeypatch):
    monkeypatch.setattr(strict, "ROWS", 3)
    grid = make_grid(expression, max_operand)
    operand, result = mixed_maps(grid)
    table = strict.score(operand, result, grid, threshold=0.5, null=make_null(grid, maps=(60, 170)))
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


def test_what_strict_corrects():
    grid = make_grid("a - b", 100)
    # The published range cache counts op1 for op2 as well: in a triangle the two differ.
    sizes = {one.name: one.size for one in published.pair_classes(grid)}
    assert sizes["op2_range_0_10"] == sizes["op1_range_0_10"] == 55
    known = {one.name: one for one in make_rules(grid).classes}
    assert known["op2_range_0_10"].size == int((grid.b < 10).sum()) == 955
    # Top sizes are the classes' sizes.
    assert all(one.size == one.members.sum() for one in known.values())
    # The published addition ends one short.
    assert (make_grid("a + b", 600).answer == 999).any()
    assert not (published_part(make_grid("a + b", 600))[1].answer == 999).any()
    # One class, one name: a - b == 0 where a == b.
    assert "same_operand" in known
    assert "result_value_000" not in known
    # Four pairs have the answer 96.
    assert "result_value_095" in known
    assert "result_value_096" not in known


def heuristics_arguments(tmp_path, *more):
    base = ["heuristics", "score", "--operator", "addition", "--max-operand", "100"]
    return [*base, "--activations", str(tmp_path / "a.parquet"), "--output", str(tmp_path / "s.parquet"), *more]


def test_bad_activations_end_the_command(tmp_path, capsys):
    assert main(heuristics_arguments(tmp_path)) == 2
    assert f"{tmp_path / 'a.parquet'} does not exist" in capsys.readouterr().err
    assert not (tmp_path / "s.parquet").exists()


PAIRS = pd.DataFrame({"op1": [0, 99], "op2": [1, 2], "result": [1, 101], "m": [0.5, -1.0], "n": [0.25, 3.0]})


@pytest.mark.parametrize(
    ("table", "kind", "sentence"),
    [
        (
            PAIRS.rename(columns={"op1": "x"}),
            "addition",
            "must have the columns op1, op2, result, then one column",
        ),
        (PAIRS[["op1", "op2", "result"]], "addition", "must have the columns op1, op2, result, then one column"),
        (PAIRS[:0], "addition", "must have the columns op1, op2, result, then one column a neuron, and rows$"),
        (PAIRS.assign(n=["x", "y"]), "addition", "whole numbers, activations numbers$"),
        (
            PAIRS.assign(op2=[1.5, 2.0]),
            "addition",
            ": op1, op2 and result must be whole numbers, activations numbers$",
        ),
        (PAIRS.assign(op2=[1.0, np.nan]), "addition", ": op1, op2 and result must be whole numbers"),
        (PAIRS.assign(op1=[0, 100]), "addition", r": operands must be in 0\.\.99; give the right --max-operand$"),
        (PAIRS.assign(op2=[-1, 2]), "addition", r": operands must be in 0\.\.99; give the right --max-operand$"),
        (
            PAIRS.assign(op1=[0, 1000]),
            "addition",
            r": the operand 1000 is too large; operands must be in 0\.\.999",
        ),
        (
            pd.concat([PAIRS, PAIRS[1:]]),
            "addition",
            ": the pair op1 = 99, op2 = 2 comes twice; keep one row of each$",
        ),
        (PAIRS.assign(result=[-1, 101]), "other", r": results must be in 0\.\.999$"),
        (PAIRS.assign(result=[1, 1000]), "other", r": results must be in 0\.\.999$"),
        (
            PAIRS.assign(result=[1, 102]),
            "addition",
            r": result is not a \+ b of op1 and op2 in every row; give the right",
        ),
        (PAIRS, "subtraction", ": result is not a - b of op1 and op2 in every row; give the right --operator$"),
        (PAIRS.assign(n=[np.nan, 1.0]), "addition", ": activations must be finite numbers$"),
    ],
)
def test_bad_activations_are_one_sentence(table, kind, sentence, tmp_path):
    path = tmp_path / "a.parquet"
    table.to_parquet(path)
    with pytest.raises(UserError, match=f"^{path}.*{sentence}"):
        read_maps(path, kind, 100)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--max-operand", "1001"], "--max-operand: 1001 is too large; operands must be in 0..999"),
        (["--threshold", "0"], "--threshold: 0.0 must be above 0 and at most 1"),
        (["--threshold", "1.1"], "--threshold: 1.1 must be"),
        (["--threshold", "nan"], "--threshold: nan must be"),
        (["--max-operand", "101", "--reference"], "largest operand is 99; give 100"),
        (["--max-operand", "1000", "--reference"], "largest operand is 99; give 100"),
    ],
)
def test_options_that_the_scores_cannot_have(options, sentence, tmp_path, capsys):
    PAIRS.to_parquet(tmp_path / "a.parquet")
    assert main(heuristics_arguments(tmp_path, *options)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --")
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "s.parquet").exists()


@pytest.mark.parametrize(("largest", "max_operand"), [(998, 999), (999, 1000)])
def test_the_largest_operands_are_scored(largest, max_operand, tmp_path, monkeypatch):
    monkeypatch.setattr(nulls, "SCALE_MAPS", 4)
    monkeypatch.setattr(nulls, "MAPS", 6)
    PAIRS.assign(op1=[0, largest], op2=[1, 0], result=[1, largest]).to_parquet(tmp_path / "a.parquet")
    arguments = heuristics_arguments(tmp_path, "--max-operand", str(max_operand))
    assert main(arguments) == main([*arguments, "--reference"]) == 0


def test_a_file_that_is_no_table_is_one_sentence(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("op1,op2\n")
    with pytest.raises(UserError, match=rf"^{path} is not a Parquet table \(.*Parquet magic bytes.*\)$"):
        read_maps(path, "addition", 100)


def test_maps_of_a_table(tmp_path):
    path = tmp_path / "a.parquet"
    PAIRS.to_parquet(path)
    grid, maps = read_maps(path, "addition", 100)
    assert (grid.a.tolist(), grid.b.tolist(), grid.answer.tolist()) == ([0, 99], [1, 2], [1, 101])
    assert (grid.kind, grid.max_operand) == ("addition", 100)
    assert grid.a.dtype == grid.b.dtype == grid.answer.dtype == np.int64
    assert maps.to_dict("list") == {"m": [0.5, -1.0], "n": [0.25, 3.0]}
    assert set(maps.dtypes) == {np.dtype("float32")}
    PAIRS.assign(op1=[7.0, 99.0], result=[0, 999]).drop(columns="n").to_parquet(path)
    grid, maps = read_maps(path, "other", 100)
    assert (grid.a.tolist(), grid.answer.tolist(), maps["m"].tolist()) == ([7, 99], [0, 999], [0.5, -1.0])
    assert grid.a.dtype == grid.answer.dtype == np.int64


@pytest.mark.parametrize("expression", ANY)
def test_the_grid_is_all_pairs_with_an_answer(expression):
    grid = make_grid(expression, 40)
    first = 1 if expression == "a // b" else 0
    pairs = [
        (a, b, eval(expression, {"a": a, "b": b, "max": max})) for a in range(first, 40) for b in range(first, 40)
    ]
    expected = [pair for pair in pairs if 0 <= pair[2] <= 999]
    assert list(zip(grid.a.tolist(), grid.b.tolist(), grid.answer.tolist(), strict=True)) == expected
    assert (EXPRESSIONS.get(grid.kind, "max(a, b)"), grid.max_operand) == (expression, 40)
    assert grid.a.dtype == np.int64


@pytest.mark.parametrize(("kind", "expression"), EXPRESSIONS.items())
def test_the_kind_of_an_operator_whatever_its_spaces_and_brackets(expression, kind):
    a, sign, b = expression.split()
    for text in (f"{a}{sign}{b}", f" {a}  {sign}{b}", f"{a}{sign} {b} ", f"({expression})", f"(({a}){sign}({b}))"):
        assert kind_of(text) == kind, text


def test_any_other_expression_is_of_the_kind_other():
    others = ["a % b", "b + a", "a + b + 0", "a / b", "-a + b", "max(a, b)"]
    unreadable = ["a +", "", "a\0", "(" * 500, "-" * 9**5]
    assert {kind_of(text) for text in (*others, *unreadable)} == {"other"}


def test_the_published_grid_of_addition_alone_ends_one_short():
    assert published_part(make_grid("a * 333", 4))[1].answer.max() == 999
    assert make_grid("a + b", 501).answer.max() == 999
    assert published_part(make_grid("a + b", 501))[1].answer.max() == 998
    with pytest.raises(UserError, match=r"^heuristics: no pair of operands below 3 has an answer in 0\.\.999$"):
        make_grid("a + b + 1000", 3)


def number_rows(grid, neurons, seed):
    """Orders (neurons, N) of random maps that favour a few answers, some more than others."""
    rng = np.random.default_rng(seed)
    maps = rng.normal(size=(neurons, len(grid.a)))
    for neuron, values in enumerate(maps):
        favoured = rng.choice(12, size=1 + neuron % 7, replace=False)
        values += rng.choice([2.0, 4.0, 8.0]) * np.isin(grid.answer, favoured)
    orders = np.argsort(-maps, axis=1)
    if grid.max_operand == 110:
        # The thousand pairs of the last two: 95 % just so, and answers that are equally common.
        for row, sizes in ((-1, {2: 475, 1: 475, 0: 50}), (-2, {1: 930, 12: 14, 7: 14, 3: 14, 5: 14, 6: 14})):
            chosen = [np.flatnonzero(grid.answer == answer)[:size] for answer, size in sizes.items()]
            thousand = np.concatenate(chosen)
            orders[row] = np.concatenate([thousand, np.setdiff1d(orders[row], thousand)])
    return orders


@pytest.mark.parametrize("max_operand", [60, 110])  # a tenth of the pairs are fewer or more than a thousand
def test_sets_of_answers_equal_plain_ones_in_both_modes(max_operand):
    grid = make_grid("a // b", max_operand)
    orders = number_rows(grid, 60, seed=0)
    theirs = {neuron: name for neuron, name, _ in published._multi(orders, grid)}
    several = set()
    for neuron, order in enumerate(orders):
        values = np.empty(len(order))
        values[order] = np.arange(len(order))[::-1]
        values = np.maximum(values, len(order) * 0.2) if neuron % 3 == 0 else values  # ties at the cut of a set
        expected = strict_multi(grid, dict(enumerate(values.tolist())))
        found = answer_sets(rank(values[None]), grid)[0]
        assert ([found.name] if found else []) == [*expected]
        for name, places in expected.items():
            assert np.flatnonzero(found.members).tolist() == sorted(places)
            score, base, *_ = plain_strict(grid, {}, values, values)[name]
            assert (found.base, found.size) == (base, len(places))
            assert found.score == pytest.approx(score)
            several.add(name[19])
        plain = published_multi(grid.answer[order].tolist())
        assert ([theirs[neuron]] if neuron in theirs else []) == [name for name, _ in plain]
    assert several == {"2", "3", "4", "5"}


def test_the_codes_of_patterns():
    table, texts, fixed = published._make_pattern_codes()
    assert [[texts[code] for code in row] for row in table] == [wildcards(number) for number in range(1000)]
    assert fixed.tolist() == [sum(place != "." for place in text) for text in texts]


def test_frequent_patterns_equal_plain_ones():
    rng = np.random.default_rng(0)
    for size in (1, 9, 30, 45):
        values = np.concatenate([rng.integers(0, 1000, size=(40, size)), rng.integers(0, 13, size=(40, size))])
        values[0], values[1] = 999, 0
        found = published._patterns(values, "op2")
        plain = [(row, *one) for row in range(80) for one in frequent_patterns("op2", values[row].tolist())]
        assert found == plain
    # Once among eleven is a tenth, rounded down.
    alike = [*range(0, 1000, 111), 12]
    once = published._patterns(np.array([alike]), "op1")
    assert once == [(0, *one) for one in frequent_patterns("op1", alike)]
    assert ("op1_value_000", 1 / 11) in [row[1:] for row in once]
    assert published._patterns(np.empty((3, 0), dtype=np.int64), "op1") == []


def test_what_remains_of_a_class_equals_the_plain_way():
    rng = np.random.default_rng(0)
    found = []
    for trial in range(400):
        own, explained = rng.random((2, 60)) < rng.choice([0.05, 0.3, 0.6, 1.0], size=(2, 1))
        values = (rng.normal(size=60) + rng.choice([0, 2, 4]) * own).round(int(rng.integers(3)))
        places, gone = (frozenset(np.flatnonzero(mask).tolist()) for mask in (own, explained))
        expected = remains(places, gone, dict(enumerate(values.tolist())), 0.5)
        assert strict._remains(own, explained, rank(values[None]), 0, 0.5) == expected, trial
        found.append(expected)
    assert 50 < sum(found) < 350
    even = np.arange(256) % 2 == 0
    order = np.concatenate([np.flatnonzero(even)[:96], np.flatnonzero(~even), np.flatnonzero(even)[96:]])
    nothing, ranks = np.zeros(256, dtype=bool), rank(-np.argsort(order)[None])
    # Three quarters where half is chance: half beyond chance, just so.
    assert strict._remains(even, nothing, ranks, 0, 0.5)
    assert not strict._remains(even, nothing, ranks, 0, 0.501)


def test_a_label_needs_the_threshold_and_no_more():
    grid = make_grid("max(a, b)", 16)  # 256 pairs; a is even in half of them
    even = grid.a % 2 == 0
    top = np.zeros(256, dtype=bool)
    for half, size in ((even, 96), (~even, 32)):  # three quarters of the top half
        top[np.random.default_rng(0).permutation(np.flatnonzero(half))[:size]] = True
    maps = (top + 0.001 * np.random.default_rng(1).random(256))[None].astype(np.float32)
    null = make_null(grid, maps=(300, 1200))

    def labelled(threshold):
        return (
            strict.score(maps, np.zeros_like(maps), grid, threshold, null=null)
            .set_index("heuristic")
            .loc["op1_0mod2"]
        )

    row = labelled(0.5)
    assert (row["score"], row["base_rate"], row["lift"], row["label"]) == (0.75, 0.5, 1.5, True)
    assert not labelled(0.501)["label"]


def test_defaults_are_a_threshold_of_0_6_no_floor_and_the_grids_null(monkeypatch):
    monkeypatch.setattr(nulls, "SCALE_MAPS", 300)
    monkeypatch.setattr(nulls, "MAPS", 1200)
    grid = make_grid("a // b", 25)
    operand, result = mixed_maps(grid)
    null = make_null(grid)
    whole = strict.score(operand, result, grid)
    pd.testing.assert_frame_equal(whole, strict.score(operand, result, grid, threshold=0.6, floor=0.0, null=null))
    assert not whole.equals(strict.score(operand, result, grid, 0.4, null=null))
    floored = strict.score(operand, result, grid, floor=0.55, null=null)
    pd.testing.assert_frame_equal(floored, whole.query("score >= 0.55").reset_index(drop=True))


def test_strict_labels_are_those_of_the_strict_mode_and_of_observed_activations():
    rows = product(("strict", "published"), ("observed", "shuffled"), (True, False))
    table = pd.DataFrame(rows, columns=["mode", "activations", "label"])
    pd.testing.assert_frame_equal(strict_labels(table), table.iloc[:1])


def test_families_by_name():
    names = {
        "op1_3mod7": "operand modulo",
        "op2_range_0_10": "operand range",
        "op1_pattern_.4.": "operand pattern",
        "op2_value_038": "operand value",
        "both_operands_1mod3": "both modulo",
        "both_operands_range_10_20": "both range",
        "same_operand": "identical operands",
        "result_2mod7": "result modulo",
        "result_range_0_10": "result range",
        "result_pattern_..7": "result pattern",
        "result_value_060": "result value",
        "result_multi_value_2=[4, 9]": "multi-result",
    }
    assert {name: family(name) for name in names} == names
    assert {name for name in names if of_result(name)} == {name for name in names if "result" in names[name]}


def test_the_command_writes_what_the_functions_score(tmp_path, capsys):
    grid = make_grid("a + b", 20)
    rng = np.random.default_rng(0)
    both, tables = [], []
    for _ in range(2):
        both.append(rng.normal(size=(3, len(grid.a))).astype(np.float32))
        columns = {"op1": grid.a, "op2": grid.b, "result": grid.answer, **dict(zip("xyz", both[-1], strict=True))}
        tables.append(pd.DataFrame(columns))
    # Joined by pairs and names: the order of rows and columns is free in both.
    tables[0].sample(frac=1, random_state=0).to_parquet(tmp_path / "operand.parquet")
    other = tables[1][["op1", "op2", "result", *"zxy"]].sample(frac=1, random_state=1)
    other.to_parquet(tmp_path / "result.parquet")
    base = ["heuristics", "score", "--operator", "addition", "--max-operand", "20", "--output"]
    files = ["--activations", str(tmp_path / "operand.parquet")]
    files += ["--result-activations", str(tmp_path / "result.parquet")]
    for mode, expected in (
        ("--strict", strict.score(*both, grid, 0.6)),
        ("--reference", published.score(*both, grid)),
    ):
        assert main([*base, str(tmp_path / "scores.parquet"), *files, mode]) == 0
        found = pd.read_parquet(tmp_path / "scores.parquet")
        pd.testing.assert_frame_equal(found, expected[list(found.columns)].reset_index(drop=True))
    for wrong, sentence in (
        (other[1:], "must have the same op1, op2 and result as"),
        (other.rename(columns={"x": "w"}), "must have the same neurons as"),
        (other.drop(columns="x"), "only one of the two has 'x'"),
    ):
        wrong.to_parquet(tmp_path / "result.parquet")
        assert main([*base, str(tmp_path / "none.parquet"), *files]) == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "none.parquet").exists()


def test_evidence_is_the_log_likelihood_ratio():
    score, base, size = np.array([[0.9, 0.5, 1.0, 0.25], [0.1, 0.4, 0.3, 0.2], [10, 40, 7, 8]])
    likely, by_chance = (binom.logpmf(score * size, size, rate) for rate in (score, base))
    np.testing.assert_allclose(evidence(score, base, size), likely - by_chance)
    assert evidence(np.array([0.1, 0.2]), np.array([0.2, 0.2]), np.array([5, 5])).tolist() == [0, 0]
