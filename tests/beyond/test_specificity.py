"""Knockouts on tasks that are no operators: values against hooks, the tasks, and whether copying is spared."""

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
from measured import ranks_by
from planted_models import LATE
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.specificity import tasks
from form_invariance.beyond.specificity.answer import answer
from form_invariance.beyond.specificity.compute import sets_of, task_rows
from form_invariance.beyond.specificity.figure import tasks as tasks_figure
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.tasks import Task, other_task, text_task
from form_invariance.errors import UserError
from form_invariance.experiment.answers import percent
from form_invariance.experiment.contrasts import verdicts
from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.controls import Draws, NeuronSet
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.experiment.run import Run
from form_invariance.problems.configured import task_of
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic

LIMITS = OperandRange(6, 60, 12, 140)
K = 8
COPY = Arithmetic("a", LIMITS)


def test_the_effect_of_a_neuron_that_was_no_candidate_is_not_known():
    effects = np.array([[[[1.0, 3], [3, 5]]], [[[0, -1], [0, -3]]]])  # (layers, draws, prompts, candidates)
    found = Effects(dict(enumerate(effects)), {0: np.array([0, 3]), 1: np.array([2, 1])}, 4)
    for layer, means in enumerate([[2, np.nan, np.nan, 4], [np.nan, -2, 0, np.nan]]):
        np.testing.assert_array_equal(found.means(layer), means)


def values_of(rng, ranks):
    """What controls are matched by, of every operator."""
    shape = next(iter(ranks.candidates.values())).shape
    return {name: {"variance": rng.random(shape), "effect": rng.random(shape)} for name in ranks.operators}


@pytest.mark.parametrize("center", [True, False])
def test_rows_of_a_task_equal_hooks(tiny, run, tiny_folder, center):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "word")
    plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["word"], 4)[2:]
    task = Task("counting", tokens, answers, means, [("counting", place) for place in range(len(tokens))])
    rng = np.random.default_rng(3)
    cells = product(("word", "code"), ("one", "two"))
    ranks = ranks_by({cell: rng.normal(size=(2, 2, 6, run.width)) for cell in cells})
    sets = sets_of(ranks, [30, 1], "word", values_of(rng, ranks), Draws(0, 2, 0))
    names = {(one.label["k"], one.label["operator"], one.label["neurons"], one.label["seed"]) for one in sets}
    every = {(name, -1) for half in ("", *HALVES) for name in (half + "circuit", half + "best_in_word")}
    every |= {*product(("random_variance", "random_effect"), (0, 1))}
    assert {(of, *one) for k, of, *one in names if k == 30} == {
        (of, *one) for of in ("one", "two") for one in every
    }
    assert (1, "one", "circuit", -1) not in names, "nothing is shared"
    table = pd.concat(task_rows(run, task, sets, center), ignore_index=True)
    bridge, blocks = oracles.bridge(tiny_folder), iter(table.groupby(np.arange(len(table)) // len(tokens)))
    nobody = NeuronSet(
        {"operator": "counting", "neurons": "none", "k": 0, "seed": -1}, np.zeros((2, run.width), bool)
    )
    for one in (nobody, *sets):
        _, rows = next(blocks)
        assert (rows[[*one.label]] == [*one.label.values()]).all(axis=None)
        z = oracles.ablated(bridge, tokens, 2, torch.from_numpy(one.members), plain, slice(-1, None))
        for metric, values in oracles.readout(z, answers, center).items():
            if (column := {"accuracy": "correct"}.get(metric, metric)) in rows:
                limit = 1e-7 if metric == "probability" else 2e-4
                np.testing.assert_allclose(rows[column].astype(float), values, atol=limit)
    assert next(blocks, None) is None
    assert list(task_rows(run, replace(task, undefined="why"), sets, center)) == []
    assert list(task_rows(run, task, [], center)) == []


def every_answer_is_right(run, tokens, answers):
    """Instead of a model without training, which predicts nothing."""
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
    # A third of few problems gives the means.
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


COPIES = {
    "yes": (planted_models.write_copying, "x = {a} + 0\nprint(x)  # "),
    "no": (partial(planted_models.write_model, shared=True), "{a}+0="),
}
"""By verdict: a model that copies by other neurons than those that add, and one that copies by adding nothing."""


@pytest.mark.parametrize("verdict", COPIES)
def test_neurons_that_compute_are_told_from_those_that_write(verdict, tmp_path):
    write, template = COPIES[verdict]
    write(tmp_path / "model", seed=0)
    run, rng = planted_models.run_of(tmp_path / "model"), np.random.default_rng(0)
    neurons = planted_models.planted_neurons(True, seed=0)
    members = np.stack([np.isin(np.arange(run.width), neurons["symbolic", layer]) for layer in LATE])
    effects = np.where(members[:, None, None], 9, -9) + rng.normal(size=(len(LATE), 1, 6, run.width))
    ranks = ranks_by({("symbolic", "addition"): effects})
    sets = sets_of(ranks, [K], "symbolic", values_of(rng, ranks), Draws(0, 3, 0))
    adding = Arithmetic(planted_models.EXPRESSION, planted_models.LIMITS)
    copying = Arithmetic("a", OperandRange(6, 120, 6, 120))
    asked = {"addition": (adding, planted_models.TEMPLATES["symbolic"]), "copying": (copying, template)}
    chosen = [other_task(run, name, *task, 40, 0) for name, task in asked.items()]
    table = pd.concat(
        [rows.assign(format="symbolic") for task in chosen for rows in task_rows(run, task, sets, True)]
    )
    sizes = {"k": [K], "best_k": [K], "specificity_k": [K]}
    contrasts = contrasts_table(Measured(table.reset_index(drop=True), ["copying"]), sizes, 100, 0)
    rows = overall(pd.concat(verdicts.asked(contrasts)).query("question == 'computed'")).set_index("metric")
    assert rows["verdict"].to_dict() == dict.fromkeys(("probability", "margin", "accuracy"), verdict)
    assert rows.loc["accuracy", "second"] > 0.5
    # Where copying is spared, a control that contains copying neurons costs it more than the circuit does.
    assert rows.loc["accuracy", "ratio"] > 0.9 if verdict == "yes" else rows.loc["accuracy", "ratio"] < 0.1
    (told,) = answer({"contrasts": contrasts}, K)
    assert f"copying is spared {percent(rows.loc['probability', 'ratio'])} of the loss" in told.sentence
    figure = tasks_figure({"contrasts": contrasts}, "m", K)
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sorted(labels) == ["copying (n = 40)", "own operator (n = 40)"]
