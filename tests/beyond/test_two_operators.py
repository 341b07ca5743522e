"""Models of two operators with circuits of their own, or a common one: along the dose and on other tasks."""

from itertools import product

import numpy as np
import pandas as pd
import planted_models
import pytest
import two_operators
from measured import ranks_by
from two_operators import OPERATORS

from form_invariance.beyond.dose.compute import dose_table, run_cell
from form_invariance.beyond.specificity.answer import answer
from form_invariance.beyond.specificity.compute import sets_of, task_rows
from form_invariance.beyond.specificity.figure import tasks
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.tasks import other_task, text_task
from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.verdicts import asked
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.intervene import start
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import render
from form_invariance.stages.mean_cache import compute as mean_cache

LIMITS, DRAWS = OperandRange(6, 60, 12, 140), Draws(0, 3, 0)
EMPTY, HALF, WHOLE = KS = 2, 4, 8
"""Sizes: the formats share none of the best, half of them, or all eight neurons of the circuit."""
FORMATS = {"symbolic": 0, "word": 2}
"""By how many places the order of the circuit's neurons is turned."""


def ranks_of(members, rng):
    """Ranks where an operator's neurons have effects, in another order in each format, and others have none."""
    effects = {}
    for (name, turned), (operator, own) in product(FORMATS.items(), members.items()):
        means = np.where(own, WHOLE - (own.cumsum(1) - 1 - turned) % WHOLE, -1)
        effects[name, operator] = means[:, None, None] + rng.random((len(own), 1, 6, own.shape[1])) / 10
    return ranks_by(effects)


@pytest.fixture(scope="module", params=[False, True], ids=["own", "common"])
def tables_of(request, tmp_path_factory):
    """Whether the circuit is common; the table by prompt and the contrasts of the constructed model."""
    folder, rng = tmp_path_factory.mktemp("two") / "model", np.random.default_rng(0)
    members = two_operators.write_model(folder, request.param, seed=0)
    run, ranks, parts = planted_models.run_of(folder), ranks_of(members, rng), []
    # The controls of half a circuit have no neuron that carries the sum.
    carries, kinds = np.any([*members.values()], axis=0), ("variance", "effect")
    others = {one: carries & ~ranks.shared(HALF, one) for one in OPERATORS}
    alike = {one: {kind: np.where(others[one], -9, rng.random(carries.shape)) for kind in kinds} for one in others}
    for name in FORMATS:
        for operator in OPERATORS:
            problems = 6 + rng.integers(54, size=(200, 2))
            prompts = [render(two_operators.TEMPLATES[operator], *pair) for pair in problems.tolist()]
            means = mean_cache.compute(run.model, run.tokenizer, [prompts[:160]])
            answers = run.answer_tokens(problems[160:].sum(1) + 20 * (operator == "shifted"))
            started = start(run, run.tokens(prompts[160:]), answers, True)
            eval_prompts = pd.DataFrame({"index": range(40), "a": problems[160:, 0], "b": problems[160:, 1]})
            runs = run_cell(started, ranks, (name, operator), KS, alike, means, DRAWS)
            parts.append(dose_table(started, eval_prompts, (name, operator), runs).assign(format=name))
        sets = sets_of(ranks, [EMPTY, WHOLE], name, alike, DRAWS)
        chosen = [text_task(run, PLAIN_TEXT, 25)]
        for task, expression in (("sum", "a + b"), ("copying", "a")):
            chosen.append(other_task(run, task, Arithmetic(expression, LIMITS), "{a}+{b}=", 25, seed=0))
        parts += [rows.assign(format=name) for task in chosen for rows in task_rows(run, task, sets, True)]
    table = pd.concat(parts, ignore_index=True)
    return request.param, table, contrasts_of(table, [WHOLE])


def contrasts_of(table, sizes):
    """All contrasts, on other tasks of some sizes."""
    every = {"k": [WHOLE], "best_k": KS, "specificity_k": sizes}
    return contrasts_table(Measured(table, ["copying"]), every, 100, 0)


def accuracy_lost(table, intervention, neurons):
    """The accuracy that sets of the whole size cost on each task, by operator."""
    before = table[table["intervention"] == "good"].groupby("task")["correct"].mean()
    rows = table[(table["intervention"] == intervention) & (table["k"] == WHOLE) & (table["neurons"] == neurons)]
    after = rows.assign(correct=rows["correct"].astype(float)).pivot_table("correct", "operator", "task")
    return (before - after).loc[OPERATORS].filter([*OPERATORS, "sum"])


def test_circuits_of_their_own_give_a_diagonal_and_a_common_one_a_flat_matrix(tables_of):
    common, table, _ = tables_of
    # The task "sum" is addition by another name.
    own, all_ = np.array([[1, 0, 1], [0, 1, 0]]), np.ones((2, 3))
    lost, kept = accuracy_lost(table, "knockout", "circuit"), accuracy_lost(table, "keep_only", "best_in_word")
    np.testing.assert_allclose(lost, all_ if common else own, atol=0.1)
    np.testing.assert_allclose(kept[OPERATORS], (1 - all_ if common else 1 - own)[:, :2], atol=0.1)


def test_a_common_circuit_is_of_no_operator(tables_of):
    """Every late layer carries as much, and no neuron reads another, so the direct loss is the loss."""
    common, _, contrasts = tables_of
    rows = overall(pd.concat(asked(contrasts))).set_index(["question", "metric"])
    assert rows.loc["exchange", "at_k"].eq(HALF).all()
    of_operator = "undecided" if common else "yes"
    for question, metric, word in (
        ("exchange", "probability", "yes"),
        ("exchange", "probability kept", "yes"),
        ("exchange", "probability beyond operator", of_operator),
        ("specific", "probability", of_operator),
        ("specific", "probability beyond control", of_operator),
        ("necessary", "probability at the last token", "yes"),
    ):
        assert rows.loc[(question, metric), "verdict"] == word, (question, metric)
    losses = overall(contrasts).query("contrast in ['loss_of_own_best', 'loss_of_own_best_direct']")
    losses = losses.pivot(index="k", columns="intervention", values="first")
    assert losses["direct"].tolist() == pytest.approx(losses["knockout"].tolist(), rel=0.05)


def test_what_the_model_cannot_do_and_a_circuit_without_neurons_are_undefined_and_never_zero(tables_of):
    _, table, _ = tables_of
    contrasts = contrasts_of(table, [EMPTY])
    assert not set(table["task"]) & {"copying", "text"}
    of_shared = ["circuit_minus_fair_control", "own_minus_other_circuits", "loss_of_shared"]
    shared = contrasts["contrast"].isin(of_shared)
    rows = contrasts[contrasts["task"].eq("all_copying") | (shared & contrasts["k"].eq(EMPTY))]
    assert rows["verdict"].eq("undefined").all()
    assert rows["cells"].eq(0).all()
    (told,) = answer({"contrasts": contrasts}, WHOLE)
    assert told.sentence == f"Undefined at k = {EMPTY}: no neuron is shared."
    assert tasks({"contrasts": contrasts}, "m", WHOLE).get_suptitle().endswith("no neuron is shared")
    (told,) = answer({"contrasts": tables_of[2]}, WHOLE)
    assert told.sentence == f"Undefined at k = {WHOLE}: no task that copies has 20 right answers."
