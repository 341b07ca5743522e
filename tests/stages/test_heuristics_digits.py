"""Heuristics of an operator that asks one digit of its answer."""

from dataclasses import asdict

import numpy as np
import pytest

from embedded_training.recipe import DIGITS
from form_invariance.errors import UserError
from form_invariance.experiment.task_options import OperandOptions
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.heuristics import null, strict
from form_invariance.stages.heuristics.classes import members_of
from form_invariance.stages.heuristics.heuristic_null_command import heuristic_null
from form_invariance.stages.heuristics.names import EXPRESSIONS, family
from form_invariance.stages.heuristics.pairs import (
    GridOptions,
    grid_of_task,
    grid_prompts,
    make_digit_grid,
    make_grid,
    result_ranges,
    take,
)
from form_invariance.stages.heuristics.ranking import ranked
from form_invariance.stages.heuristics.rules import make_rules

TENS, UNITS = (Arithmetic("a + b", OperandRange(10, 99, 10, 99), digit) for digit in (0, 1))


def test_the_grid_is_the_operators_own():
    for task, divisor in ((TENS, 10), (UNITS, 1)):
        grid = make_digit_grid(task, 60)
        pairs = [(a, b) for a in range(10, 60) for b in range(10, 60) if a + b <= 99]
        assert list(zip(grid.a.tolist(), grid.b.tolist(), strict=True)) == pairs
        assert (grid.answer == (grid.a + grid.b) // divisor % 10).all()
        assert [*grid.problems.index] == [*range(len(pairs))]
    with pytest.raises(UserError, match=r"no pair of operands of 'a \+ b', digit 1, is below 10"):
        make_digit_grid(UNITS, 10)


def test_ranges_of_results_cover_every_answer_and_no_more():
    digits = result_ranges(make_digit_grid(TENS, 100))
    assert digits == [
        (start, end) for width in (2, 3, 5) for start, end in zip(range(9), range(width, 11), strict=False)
    ]
    for expression in (*EXPRESSIONS.values(), "max(a, b)"):
        grid, ranges = make_grid(expression, 200), result_ranges(make_grid(expression, 200))
        last = max(199, grid.answer.max() if expression != "a - b" else 0)
        assert max(start for start, _ in ranges) <= last < max(end for _, end in ranges), expression


def test_rules_are_on_the_digit_the_operands_and_the_carry():
    grid = make_digit_grid(TENS, 100)
    rules = {one.name: one.members for one in make_rules(grid).classes}
    carry = grid.a % 10 + grid.b % 10 > 9
    np.testing.assert_array_equal(rules["carry_1"], carry)
    np.testing.assert_array_equal(rules["result_range_2_5"], (grid.answer >= 2) & (grid.answer < 5))
    np.testing.assert_array_equal(rules["op2_3mod10"], grid.b % 10 == 3)
    assert not [name for name in rules if name.startswith("result_pattern")]
    moduli = {name.split("mod")[1] for name in rules if name.startswith("result_") and "mod" in name}
    assert moduli <= {"2", "3", "4", "5"}
    for name, members in rules.items():
        np.testing.assert_array_equal(members_of(name, grid), members, err_msg=name)
    # No carry comes into the last digit, and an empty class is no rule.
    assert "carry_1" not in {one.name for one in make_rules(make_digit_grid(UNITS, 100)).classes}
    some = take(grid, np.arange(0, len(grid.a), 7))
    np.testing.assert_array_equal(members_of("carry_1", some), carry[::7])


def test_planted_maps_get_their_rules():
    grid, rng = make_digit_grid(TENS, 100), np.random.default_rng(0)
    rules = {"carry_1": "carry", "op1_range_40_50": "operand range", "result_value_007": "result value"}
    maps = np.stack([members_of(rule, grid) for rule in rules]) + 0.2 * rng.random((3, len(grid.a)))
    noise = rng.standard_normal(maps.shape)
    operand, result = np.concatenate([maps[:2], noise[2:]]), np.concatenate([noise[:2], maps[2:]])
    table = strict.score(ranked(operand), ranked(result), grid, null.make_null(grid, maps=(150, 250)))
    best = table[table["label"]].sort_values("score").groupby("neuron").last()
    assert best["heuristic"].map(family).tolist() == [*rules.values()]
    assert best["score"].tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("task", [TENS, Arithmetic("a // b", OperandRange(1, 99, 0, 99))])
def test_random_maps_come_back_from_their_file(task, tmp_path, monkeypatch):
    monkeypatch.setattr(null, "SCALE_MAPS", 60)
    monkeypatch.setattr(null, "MAPS", 40)
    path, limits = tmp_path / "maps.safetensors", OperandOptions(**asdict(task.limits))
    options = GridOptions(expression=task.expression, digit=task.digit, limits=limits, max_operand=40)
    grid = grid_of_task(task, 40)
    heuristic_null(grid=options, seed=3, output=path)
    found, made = null.read_null(path, {"seed": 3}, grid), null.make_null(grid, 3)
    assert [one.name for one in found.rules.classes] == [one.name for one in made.rules.classes]
    np.testing.assert_array_equal(null.make_null(grid).smoothness, null.make_null(grid, 0).smoothness)
    for name, values in null.to_arrays(made).items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)
    assert made.scale_evidence.dtype == np.float32
    with pytest.raises(UserError, match=r"of max_operand 40, not 41; make them with the same --max-operand$"):
        null.read_null(path, {"expression": task.expression, "max_operand": 41}, grid)
    with pytest.raises(UserError, match=r"^--digit needs --operand-min"):
        heuristic_null(grid=GridOptions(expression="a + b", digit=0, max_operand=40), seed=3, output=path)


def test_evidence_of_rules_that_hold_for_all_pairs_or_for_none_is_a_number():
    with np.errstate(all="raise"):
        found = null.evidence(np.array([1, 0.5, 1, 1]), np.array([1, 0, 0, 0.5]), np.array([9, 9, 9, 9]))
    assert found == pytest.approx([0, np.inf, np.inf, 9 * np.log(2)])


def test_prompts_end_in_the_digits_before_the_answer(packaged):
    tokenizer = packaged[DIGITS][1]
    grid = take(make_digit_grid(UNITS, 100), np.arange(0, 3000, 400))
    prompts, answers = grid_prompts(grid, tokenizer, "{a}+{b}=", "x")
    assert prompts == [f"{a}+{b}={(a + b) // 10}" for a, b in zip(grid.a, grid.b, strict=True)]
    with pytest.raises(UserError, match=r"^x: template"):
        grid_prompts(grid, tokenizer, "{a}=", "x")
    assert [tokenizer.text(int(token)) for token in answers] == [str(n % 10) for n in grid.a + grid.b]
