"""Knockouts on other tasks: values against hooks, the tasks, circuits of two operators, and copying."""

from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import planted_models
import pytest
import torch
import two_operators
from measured import ranks_by
from planted_models import LATE
from small_prompts import CACHE_PROMPTS, plain_means, prepare
from two_operators import OPERATORS

from form_invariance.beyond.dose.compute import dose_table, run_cell
from form_invariance.beyond.specificity import tasks
from form_invariance.beyond.specificity.answer import answer
from form_invariance.beyond.specificity.compute import sets_of, task_rows
from form_invariance.beyond.specificity.figure import tasks as tasks_figure
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.tasks import TaskPrompts, other_task, text_task
from form_invariance.errors import UserError
from form_invariance.experiment.answers import percent
from form_invariance.experiment.contrasts import verdicts
from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.intervene import start
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.experiment.run import Run
from form_invariance.problems.configured import task_of
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import render
from form_invariance.stages.mean_cache import compute as mean_cache

LIMITS = OperandRange(6, 60, 12, 140)
DRAWS = Draws(0, 3, 0)
EMPTY, HALF, K = KS = 2, 4, 8
"""Sizes of two operators: the formats share none of the best, half of them, or all neurons of the circuit."""
FORMATS = {"symbolic": 0, "word": 2}
"""How many places the order of the circuit's neurons is turned in each format."""
COPY = Arithmetic("a", LIMITS)


def test_the_effect_of_a_neuron_that_was_no_candidate_is_not_known():
    effects = np.array([[[[1.0, 3], [3, 5]]], [[[0, -1], [0, -3]]]])  # (layers, draws, prompts, candidates)
    found = Effects(dict(enumerate(effects)), {0: np.array([0, 3]), 1: np.array([2, 1])}, 4)
    for layer, means in enumerate([[2, np.nan, np.nan, 4], [np.nan, -2, 0, np.nan]]):
        np.testing.assert_array_equal(found.means(layer), means)


def values_of(rng, ranks):
    """The values by which controls are matched, by operator."""
    shape = next(iter(ranks.candidates.values())).shape
    return {name: {"variance": rng.random(shape), "effect": rng.random(shape)} for name in ranks.operators}


@pytest.mark.parametrize("center", [True, False])
def test_rows_of_a_task_equal_hooks(tiny, run, tiny_folder, center):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "word")
    plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["word"], 4)[2:]
    task = TaskPrompts("counting", tokens, answers, means, [("counting", place) for place in range(len(tokens))])
    rng = np.random.default_rng(3)
    cells = product(("word", "code"), ("one", "two"))
    ranks = ranks_by({cell: rng.normal(size=(2, 2, 6, run.width)) for cell in cells})
    sets = sets_of(ranks, [30, 1], "word", values_of(rng, ranks), Draws(0, 2, 0))
    names = {(one.label["k"], one.label["operator"], one.label["neurons"], one.label["seed"]) for one in sets}
    every = {(half + name, -1) for half in ("", *HALVES) for name in ("circuit", "best_in_word")}
    every |= {*product(("random_variance", "random_effect"), (0, 1))}
    assert {one[1:] for one in names if one[0] == 30} == {(of, *one) for of in ("one", "two") for one in every}
    assert (1, "one", "circuit", -1) not in names, "nothing is shared"
    table = pd.concat(task_rows(run, task, sets, center), ignore_index=True)
    masks = [({"operator": "counting", "neurons": "none", "k": 0}, np.zeros_like(sets[0].members))]
    masks += [(dict(one.label), one.members) for one in sets]
    size, bridge = len(masks) * len(tokens), oracles.bridge(tiny_folder)
    oracles.check_rows(table[:size], masks, bridge, tokens, answers, 2, plain, center)
    ranked = [(one.label, one.members) for one in sets if one.label["neurons"] in ("circuit", "best_in_word")]
    rest = table[size:]
    for half, rows in enumerate((rest[: len(rest) // 2], rest[len(rest) // 2 :])):
        masks = [({**label, "neurons": f"means_{half + 1}_{label['neurons']}"}, some) for label, some in ranked]
        plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["word"][half::2], 4)[2:]
        oracles.check_rows(rows, masks, bridge, tokens, answers, 2, plain, center)
    assert list(task_rows(run, replace(task, undefined="why"), sets, center)) == []
    assert list(task_rows(run, task, [], center)) == []


def every_answer_is_right(run, tokens, answers):
    """This replaces an untrained model, whose answers are wrong."""
    return SimpleNamespace(correct=torch.ones(len(tokens), dtype=torch.bool))


def test_plain_text_is_cut_in_windows_and_the_means_come_from_others(run, monkeypatch):
    assert text_task(run, PLAIN_TEXT, 6).undefined.startswith("fewer than 20")
    monkeypatch.setattr(tasks, "answer", every_answer_is_right)
    monkeypatch.setattr(tasks, "FEWEST", 6)
    seen, real = [], tasks.last_token_means
    monkeypatch.setattr(tasks, "last_token_means", lambda *given: seen.append(given[1]) or real(*given))
    task, whole = text_task(run, PLAIN_TEXT, 6), run.tokenizer.encode(PLAIN_TEXT)
    assert not task.undefined
    assert task.tokens.shape == (6, 1 + tasks.CONTEXT)
    for row, wanted, (_, place) in zip(task.tokens.tolist(), task.answers.tolist(), task.problems, strict=True):
        assert [*row, wanted] == [run.tokenizer.bos, *whole[place : place + 33]]
    assert len(seen[0]) == 2 * 6
    assert not {*map(tuple, task.tokens.tolist())} & {*map(tuple, seen[0].tolist())}


UNUSABLE = [
    (lambda run, _: text_task(run, "Short.", 20), "at least 64"),
    (lambda _, folder: tasks.read_text(folder / "binary"), "binary cannot be read as UTF-8"),
    (lambda _, folder: tasks.read_text(folder / "binary", "0" * 64), "binary has changed since the run"),
    (lambda run, _: other_task(run, "copying", COPY, "{a} is 0", 20, 0), "^the task copying: .*next token"),
]


@pytest.mark.parametrize(("make", "sentence"), UNUSABLE)
def test_a_task_that_cannot_be_used_is_refused(run, tmp_path, make, sentence):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(UserError, match=sentence):
        make(run, tmp_path)


def test_a_task_asks_a_digit_or_the_rows_of_a_table(packaged, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "answer", every_answer_is_right)
    run = Run(*packaged["embedded-digits"][:2], 2)
    two_digits = {"operand_min": 10, "operand_max": 99, "answer_min": 10, "answer_max": 99}
    rows = [f"1{n},1{n + 1},{n + 2}\n" for n in range(8)]
    (tmp_path / "counting.csv").write_text("first,second,answer\n" + "".join(rows))
    product = {"expression": "a * b", "digit": 1, "operands": {"operand_min": 2, "operand_max": 9}}
    table = {"table": str(tmp_path / "counting.csv")}
    # If problems are few, a third of them gives the means.
    for asked, template, size, ends in (
        ({"expression": "a", "digit": 1}, "{a}={a}=", 40, lambda _, a: f"{a}={a}={a}"),
        (product, "{a}+{b}=", 35, lambda a, b: f"{a}+{b}={a * b}"),
        (table, "{first}={second}=1", 6, lambda _, row: f"1{row}=1{row + 1}=1{row + 2}"),
    ):
        task = other_task(run, "mine", task_of(asked, two_digits), template, 40, 0)
        whole = torch.cat([task.tokens[:, 1:], task.answers[:, None]], 1)
        texts = ["".join(map(run.tokenizer.text, row)) for row in whole.tolist()]
        # A problem has the smaller operand first; a template may have the other one first.
        for text, (_, a, b) in zip(texts, task.problems, strict=True):
            assert text in ([ends(a, b), ends(b, a)] if asked is product else [ends(a, b)])
        assert len(texts) == len(set(texts)) == size
    (tmp_path / "windows").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    assert tasks.read_text(tmp_path / "windows") == "one\ntwo\n"


def ranks_of(members, rng):
    """Ranks in which only an operator's neurons have effects, in a different order in each format."""
    effects = {}
    for (name, turned), (operator, own) in product(FORMATS.items(), members.items()):
        means = np.where(own, K - (own.cumsum(1) - 1 - turned) % K, -1)
        effects[name, operator] = means[:, None, None] + rng.random((len(own), 1, 6, own.shape[1])) / 10
    return ranks_by(effects)


@pytest.fixture(scope="module", params=[False, True], ids=["own", "common"])
def tables_of(request, tmp_path_factory):
    """Whether a constructed model's circuit is common, its table by prompt and its contrasts."""
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
        sets = sets_of(ranks, [EMPTY, K], name, alike, DRAWS)
        chosen = [text_task(run, PLAIN_TEXT, 25)]
        for task, expression in (("sum", "a + b"), ("copying", "a")):
            chosen.append(other_task(run, task, Arithmetic(expression, LIMITS), "{a}+{b}=", 25, seed=0))
        parts += [rows.assign(format=name) for task in chosen for rows in task_rows(run, task, sets, True)]
    table = pd.concat(parts, ignore_index=True)
    return request.param, table, contrasts_of(table, [K])


def contrasts_of(table, sizes):
    """All contrasts, on other tasks of some sizes."""
    every = {"k": [K], "best_k": KS, "specificity_k": sizes}
    return contrasts_table(Measured(table, ["copying"]), every, 100, 0)


def accuracy_lost(table, intervention, neurons):
    """The accuracy that sets of the whole size cost on each task, by operator."""
    before = table[table["intervention"] == "good"].groupby("task")["correct"].mean()
    rows = table[(table["intervention"] == intervention) & (table["k"] == K) & (table["neurons"] == neurons)]
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
    """All late layers carry equal parts and no neuron reads another, so the direct loss is the whole loss."""
    common, _, contrasts = tables_of
    rows = overall(pd.concat(verdicts.question_rows(contrasts))).set_index(["question", "metric"])
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
    (told,) = answer({"contrasts": contrasts}, K)
    assert told.sentence == f"Undefined at k = {EMPTY}: no neuron is shared."
    assert tasks_figure({"contrasts": contrasts}, "m", K).get_suptitle().endswith("no neuron is shared")
    (told,) = answer({"contrasts": tables_of[2]}, K)
    assert told.sentence == f"Undefined at k = {K}: no task that copies has 20 right answers."


COPIES = {
    "yes": (planted_models.write_copying, planted_models.COPYING["code"]),
    "no": (partial(planted_models.write_model, shared=True), planted_models.COPYING["symbolic"]),
}
"""A model that copies by other neurons than those that add, and one that copies by adding 0; by verdict."""


@pytest.mark.parametrize("verdict", COPIES)
def test_neurons_that_compute_are_told_from_those_that_write(verdict, tmp_path):
    write, template = COPIES[verdict]
    write(tmp_path / "model", seed=0)
    run, rng = planted_models.run_of(tmp_path / "model"), np.random.default_rng(0)
    neurons = planted_models.planted_neurons(True, seed=0)
    members = np.stack([np.isin(np.arange(run.width), neurons["symbolic", layer]) for layer in LATE])
    effects = np.where(members[:, None, None], 9, -9) + rng.normal(size=(len(LATE), 1, 6, run.width))
    ranks = ranks_by({("symbolic", "addition"): effects})
    sets = sets_of(ranks, [K], "symbolic", values_of(rng, ranks), DRAWS)
    adding = Arithmetic(planted_models.EXPRESSION, planted_models.LIMITS)
    copying = Arithmetic("a", OperandRange(6, 120, 6, 120))
    asked = {"addition": (adding, planted_models.TEMPLATES["symbolic"]), "copying": (copying, template)}
    chosen = [other_task(run, name, *task, 40, 0) for name, task in asked.items()]
    parts = [rows.assign(format="symbolic") for task in chosen for rows in task_rows(run, task, sets, True)]
    contrasts = contrasts_of(pd.concat(parts, ignore_index=True), [K])
    rows = overall(pd.concat(verdicts.question_rows(contrasts)))
    rows = rows.query("question == 'computed'").set_index("metric")
    # One operator says little of the noise of the means, which moves the margin most.
    assert rows.loc[["probability", "accuracy"], "verdict"].eq(verdict).all()
    assert rows.loc["margin", "verdict"] in (verdict, "undecided")
    assert rows.loc["accuracy", "second"] > 0.5
    # If copying is spared, a control that contains copying neurons costs it more than the circuit does.
    assert rows.loc["accuracy", "ratio"] > 0.9 if verdict == "yes" else rows.loc["accuracy", "ratio"] < 0.1
    (told,) = answer({"contrasts": contrasts}, K)
    assert f"copying is spared {percent(rows.loc['probability', 'ratio'])} of the loss" in told.sentence
    figure = tasks_figure({"contrasts": contrasts}, "m", K)
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sorted(labels) == ["copying (n = 40)", "own operator (n = 40)"]
