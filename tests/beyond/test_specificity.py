"""Damage matrices: circuits of their own give a diagonal, a common circuit a flat one; values against hooks."""

from dataclasses import replace
from functools import partial
from itertools import combinations, product
from types import SimpleNamespace

import copying_model
import numpy as np
import oracles
import pandas as pd
import planted_models
import pytest
import torch
import two_operators
from planted_models import LATE
from schema_checks import check_columns
from scipy.stats import t
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.specificity import tasks
from form_invariance.beyond.specificity.answer import answer
from form_invariance.beyond.specificity.compute import damages, matrix
from form_invariance.beyond.specificity.contrasts import contrasts_table
from form_invariance.beyond.specificity.damages import INTERVENTIONS, Damages, damage_by_prompt
from form_invariance.beyond.specificity.figure import exchange_matrix
from form_invariance.beyond.specificity.neuron_sets import best_sets, circuit_sets
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.table import (
    CONTROLS,
    METRICS,
    SPECIFICITY,
    SPECIFICITY_CONTRASTS,
    SPECIFICITY_PROMPTS,
)
from form_invariance.beyond.specificity.tasks import Task, other_task, text_task
from form_invariance.beyond.specificity.verdicts import ratios
from form_invariance.errors import UserError
from form_invariance.experiment.controls import Draws, NeuronSet
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.neuron_sets import KINDS
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.configured import task_of
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import render
from form_invariance.randomness import generator
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.workflow.model_checks import known_folder

LIMITS = OperandRange(6, 60, 12, 140)
K, DRAWS, RESAMPLES = 8, 3, 100
COPY = Arithmetic("a", LIMITS)
SYMBOLIC, WORD = ("symbolic", True), ("word", False)


def pairs(seed, count):
    """Operands of which no pair comes twice."""
    drawn = np.random.default_rng(seed).permutation(54 * 54)[:count]
    return [(6 + number // 54, 6 + number % 54) for number in drawn.tolist()]


def prompts(run, operator, chosen):
    """Tokens and answers of an operator's prompts."""
    tokens = run.tokens([render(two_operators.TEMPLATES[operator], *pair) for pair in chosen])
    return tokens, run.answer_tokens(np.array([sum(pair) + 20 * (operator == "shifted") for pair in chosen]))


def effects_of(circuit, good, name):
    """Effects (2 draws, 6 prompts) by which the circuit's neurons are the best of their layer, or no members."""
    noise = np.random.default_rng(good).random((len(circuit), 2, 6, circuit.shape[1])) / 10
    effects = np.where((circuit == good)[:, None, None], 1 + noise, -noise)
    layers = range(LATE[0], LATE[0] + len(circuit))
    everyone = dict.fromkeys(layers, np.arange(circuit.shape[1]))
    return Effects(dict(zip(layers, effects, strict=True)), everyone, circuit.shape[1], name)


@pytest.fixture(scope="module", params=[False, True], ids=["own", "common"])
def measured(request, tmp_path_factory):
    """Whether the circuit is common; the sets; both tables of the constructed model."""
    folder = tmp_path_factory.mktemp("two") / "model"
    members = two_operators.write_model(folder, request.param, seed=0)
    run = Run(loading.load(folder), load_tokenizer(folder), LATE[0])
    found, sets, chosen = [], [], []
    for place, operator in enumerate(two_operators.OPERATORS):
        train, evaluation = pairs(place, 200)[:160], pairs(place, 200)[160:]
        template = two_operators.TEMPLATES[operator]
        means = mean_cache.compute(run.model, run.tokenizer, [[render(template, *pair) for pair in train]])
        problems = [(operator, *pair) for pair in evaluation]
        chosen.append(Task(operator, *prompts(run, operator, evaluation), means, problems))
        values = {
            KINDS[kind].matched_by: np.random.default_rng(place).random(members[operator].shape)
            for kind in CONTROLS
        }
        circuits = {K: members[operator], 2 * K: np.zeros_like(members[operator])}
        formats = {name: effects_of(members[operator], good, name) for name, good in (SYMBOLIC, WORD)}
        draws = Draws(0, DRAWS, 0)
        sets += circuit_sets(operator, circuits, {}, values, draws)
        sets += best_sets(operator, "symbolic", formats, [K], values, draws, list(two_operators.OPERATORS))
    for name, expression in (("sum", "a + b"), ("copying", "a")):
        chosen.append(other_task(run, name, Arithmetic(expression, LIMITS), "{a}+{b}=", 25, seed=0))
    chosen.append(text_task(run, PLAIN_TEXT, 25))
    for task in chosen:
        found += damages(run, "symbolic", task, sets, RESAMPLES, 0, center=True)
    table = pd.concat([matrix(one, sets, True) for one in found], ignore_index=True)
    contrasts = contrasts_table(found, {"symbolic": sets}, list(two_operators.OPERATORS), ["copying"])
    return request.param, sets, table, contrasts


def accuracy_damage(table, intervention, neurons="circuit"):
    rows = table[(table["intervention"] == intervention) & (table["neurons"] == neurons) & (table["k"] == K)]
    matrix = rows.pivot_table(index="operator", columns="task", values="accuracy_damage")
    return matrix.loc[list(two_operators.OPERATORS), [*two_operators.OPERATORS, "sum"]].astype(float)


def test_circuits_of_their_own_give_a_diagonal_and_a_common_one_a_flat_matrix(measured):
    common, _, table, _ = measured
    check_columns(table, SPECIFICITY)
    lost, kept = (accuracy_damage(table, one) for one in ("knockout", "keep_only"))
    ones = np.ones((2, 3))
    # The task "sum" is addition by another name.
    own = np.array([[1, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(lost, ones if common else own, atol=0.1)
    np.testing.assert_allclose(kept, 0 * ones if common else 1 - own, atol=0.1)
    for kind in CONTROLS:
        controls = accuracy_damage(table, "knockout", kind)
        if common:
            np.testing.assert_allclose(controls, 0 * ones, atol=0.1)
        else:
            assert (np.diag(controls) < 0.5).all()


def test_contrasts_say_whether_a_circuit_is_the_operators_own(measured):
    common, _, table, contrasts = measured
    check_columns(contrasts, SPECIFICITY_CONTRASTS)
    chosen = contrasts.query("format == 'all' and operator == 'all' and metric == 'accuracy' and k == @K")
    found = chosen.set_index(["intervention", "contrast", "task"])
    *_, told = answer({"specificity": table, "specificity_contrasts": contrasts}, K)
    row = found.loc[("knockout", "own_minus_other", "other_operators")]
    low, high = (f"{round(100 * row[name]):+d}" for name in ("low", "high"))
    difference = f"{round(100 * row['difference']):+d} points (95 % interval {low} to {high}): {row['verdict']}."
    assert f"Own minus other {difference}" in told.sentence
    for intervention in INTERVENTIONS:
        row = found.loc[(intervention, "own_minus_other", "other_operators")]
        assert row["cells"] == 2
        assert row["difference"] == pytest.approx(0 if common else 1, abs=0.1)
        assert row["verdict"] == "yes" if not common else row["low"] <= 0 <= row["high"] or abs(row["high"]) < 0.1
        row = found.loc[(intervention, "circuit_minus_control", "own")]
        assert row["verdict"] == "yes"
        assert row["low"] <= row["difference"] <= row["high"]
        row = found.loc[(intervention, "own_minus_other_circuits", "own")]
        assert row["difference"] == pytest.approx(0 if common else 1, abs=0.1)
    ratio = found.loc[("knockout", "own_minus_other", "other_operators")]["ratio"]
    assert ratio == pytest.approx(1, abs=0.1) if common else np.isnan(ratio)


def test_the_best_neurons_of_a_format_are_knocked_out_in_another(measured):
    """In one format the circuit's neurons are the best, in another they are the worst: nothing is exchanged."""
    _, sets, table, contrasts = measured
    for operator in two_operators.OPERATORS:
        own = {
            one.label["neurons"]: one.members
            for one in sets
            if (one.label["operator"], one.label["k"]) == (operator, K)
        }
        assert (own["best_in_symbolic"] == own["circuit"]).all()
        assert (own["best_in_word"].sum(1) == K).all()
        assert not (own["best_in_word"] & own["circuit"]).any()
        knockout = table[(table["k"] == K) & (table["intervention"] == "knockout")]
        matrix = exchange_matrix(knockout, operator, "probability_damage")
        assert matrix.loc["best in symbolic", "symbolic"] == matrix.loc["shared by all", "symbolic"] > 0.02
    exchanged = contrasts.query("k == @K and operator == 'addition' and format == 'symbolic'")
    exchanged = exchanged.set_index(["intervention", "contrast", "metric"])
    for intervention, metric, sign in (("knockout", "accuracy", 1), ("keep_only", "probability", -1)):
        rows = table.query("k == @K and intervention == @intervention and task == 'addition'")
        means = sign * rows.groupby(["operator", "neurons"])[f"{metric}_damage"].mean()
        own, control = means["addition"], max(means["addition", f"{kind}_of_own_best"] for kind in CONTROLS)
        row = exchanged.loc[intervention, "exchanged_minus_own_beyond_control", metric]
        assert row["first"] == pytest.approx(own["best_in_word"] - control)
        assert row["second"] == pytest.approx(own["best_in_symbolic"] - control)
        assert row["difference"] == pytest.approx(row["first"] - row["second"])
        assert row["ratio"] == pytest.approx(row["first"] / row["second"]) or row["second"] < 0.01
        row = exchanged.loc[intervention, "half_minus_own_beyond_control", metric]
        assert row["first"] == pytest.approx(
            (own["half_1_best_in_symbolic"] + own["half_2_best_in_symbolic"]) / 2 - control
        )
        row = exchanged.loc[intervention, "exchanged_minus_other_operators_best", metric]
        assert (row["first"], row["second"]) == pytest.approx(
            (own["best_in_word"], means["shifted", "best_in_word"])
        )
        row = exchanged.loc[intervention, "other_only_minus_control", metric]
        control = max(own[f"{kind}_of_only_in_word"] for kind in CONTROLS)
        assert (row["first"], row["second"]) == pytest.approx((own["only_in_word"], control))
        losses = exchanged.loc[intervention, "damage", metric].set_index("task")["first"]
        control = max(own[f"{kind}_of_own_best"] for kind in CONTROLS)
        wanted = own["best_in_symbolic"], own["best_in_word"], means["shifted", "best_in_word"], control
        assert losses.iloc[:4].tolist() == pytest.approx(wanted)
        assert np.isnan(losses["copying"]), "the model cannot copy"
        # They have nothing in common.
        assert np.isnan(exchanged.loc[intervention, "common_minus_control", metric]["first"])


def test_parts_of_two_formats_best_are_cut_by_membership_and_prompts():
    rng = np.random.default_rng(0)
    layers, width, k = (4, 5), 30, 6
    formats = {
        name: Effects(
            {layer: rng.normal(size=(2, 8, width)) for layer in layers},
            dict.fromkeys(layers, np.arange(width)),
            width,
            name,
        )
        for name in "xyz"
    }
    values = {key: rng.random((2, width)) for key in ("variance", "effect")}
    found = list(best_sets("+", "x", formats, [k], values, Draws(0, 3, 0), ["+", "-"]))
    own = {(one.label["neurons"], one.label["seed"]): one.members for one in found}
    assert len(own) == len(found)

    def best(name, chosen=slice(None)):
        means = np.stack([formats[name].effects[layer].mean(0)[chosen].mean(0) for layer in layers])
        return (means >= np.sort(means, axis=1)[:, [-k]]) & (means > 0)

    for name in "xyz":
        assert (own["best_in_" + name, -1] == best(name)).all()
    for name in "yz":
        assert (own["common_with_" + name, -1] == (best("x") & best(name))).all()
        assert (own["not_in_" + name, -1] == (best("x") & ~best(name))).all()
        assert (own["only_in_" + name, -1] == (best(name) & ~best("x"))).all()
        for part, kind, draw in product(("not_in_", "only_in_"), CONTROLS, range(2)):
            control = own[f"{kind}_of_{part}{name}", draw]
            assert (control.sum(1) == own[part + name, -1].sum(1)).all()
            assert not (control & (best("x") | best(name))).any()
    assert not (own["random_effect_of_own_best", 2] & best("x")).any()
    split = [
        half for half in combinations(range(8), 4) if (own["half_1_best_in_x", -1] == best("x", list(half))).all()
    ]
    rest = [[place for place in range(8) if place not in half] for half in split]
    assert any((own["half_2_best_in_x", -1] == best("x", other)).all() for other in rest)
    tasks = {one.label["neurons"]: one.tasks for one in found}
    assert tasks["best_in_y"] == ("+", "-")
    assert {some for name, some in tasks.items() if "best_in_" not in name} == {("+",)}


def test_what_the_model_cannot_do_is_undefined_with_its_number(measured):
    _, _, table, contrasts = measured
    cannot = table[table["task"].isin(["copying", "text"])]
    measures = [name for name, column in SPECIFICITY.columns.items() if column.type == "float64"]
    assert cannot[measures].isna().all(axis=None)
    assert cannot.loc[cannot["task"] == "copying", "undefined"].str.startswith("fewer than 20").all()
    assert cannot.loc[cannot["task"] == "copying", "prompts"].lt(20).all()
    assert cannot.loc[cannot["task"] == "text", "undefined"].str.startswith("fewer than 20").all()
    assert contrasts[contrasts["task"] == "copying"]["verdict"].eq("undefined").all()
    text = answer({"specificity": table, "specificity_contrasts": contrasts}, K)[1].sentence
    assert text == "Undefined at k = 8: no neuron is shared, or no task that copies has 20 right answers."


def test_a_circuit_without_neurons_is_undefined_and_never_zero(measured):
    _, _, table, contrasts = measured
    empty = table[table["k"] == 2 * K]
    assert set(empty["neurons"]) == {"circuit"}
    assert empty["n_neurons"].eq(0).all()
    measures = [name for name, column in SPECIFICITY.columns.items() if column.type == "float64"]
    assert empty[measures].isna().all(axis=None)
    assert empty.loc[empty["task"] == "addition", "undefined"].eq("no neuron is shared").all()
    rows = contrasts[contrasts["k"] == 2 * K]
    assert rows["verdict"].eq("undefined").all()
    assert rows["cells"].eq(0).all()
    *_, found = answer({"specificity": table, "specificity_contrasts": contrasts}, 2 * K)
    assert found.sentence == "Undefined: no neuron is shared at k = 16."


def named(task, size):
    """Problems of a task, the same in every format."""
    return [(task, place) for place in range(size)]


def labelled(operator, neurons, draw, members):
    return NeuronSet({"operator": operator, "neurons": neurons, "k": 5, "seed": draw}, members)


def random_sets(width, seed=3):
    """Two operators' circuits of random neurons."""
    rng = np.random.default_rng(seed)
    return [labelled(name, "circuit", -1, rng.random((2, width)) < 0.3) for name in ("one", "two")]


def expected_values(bridge, tokens, answers, plain, mask, center):
    """The metrics by hooks over whole sequences: neurons in mask (late layers, m) at `plain` (late layers, m)."""
    means = plain[:, None].expand(-1, tokens.shape[1], -1)
    return oracles.readout(oracles.ablated(bridge, tokens, 2, mask, means, slice(-1, None)), answers, center)


def compare(bridge, found, sets, task, plain, center):
    """Both interventions of every set, and the damages, with hooks."""
    nothing = torch.zeros(2, sets[0].members.shape[1], dtype=torch.bool)
    before = expected_values(bridge, task.tokens, task.answers, plain, nothing, center)
    for one in found:
        for row, chosen in enumerate(sets):
            mask = torch.from_numpy(chosen.members)
            mask = mask if one.intervention == "knockout" else ~mask
            after = expected_values(bridge, task.tokens, task.answers, plain, mask, center)
            for metric, values in after.items():
                np.testing.assert_allclose(one.ablated[metric][row], values, atol=2e-4)
                sign = -1 if metric == "loss" else 1
                damage = sign * (before[metric] - values)
                np.testing.assert_allclose(one.damage[metric][row], damage, atol=2e-4)
            assert np.abs(one.damage["loss"][row]).max() > 1e-3, "the ablation did nothing"


@pytest.mark.parametrize("center", [True, False])
def test_damages_equal_hooks(tiny, tiny_folder, center):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "word")
    plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["word"], 4)[2:, -1]
    sets, task = random_sets(model.config.d_mlp), Task("one", tokens, answers, means, named("one", len(tokens)))
    found = list(damages(Run(model, tokenizer, 2), "word", task, sets, 20, 0, center))
    compare(oracles.bridge(tiny_folder), found, sets, task, plain, center)


def all_count_as_right(monkeypatch):
    """A model without training predicts nothing."""

    def every(run, tokens, answers):
        return SimpleNamespace(correct=torch.ones(len(tokens), dtype=torch.bool))

    monkeypatch.setattr(tasks, "answer", every)


def test_plain_text_is_cut_in_windows_and_its_damage_equals_hooks(tiny, tiny_folder, monkeypatch):
    model, tokenizer = tiny
    run, bridge = Run(model, tokenizer, 2), oracles.bridge(tiny_folder)
    assert text_task(run, PLAIN_TEXT, 6).undefined.startswith("fewer than 20")
    all_count_as_right(monkeypatch)
    monkeypatch.setattr(tasks, "FEWEST", 6)
    task, sets = text_task(run, PLAIN_TEXT, 6), random_sets(model.config.d_mlp)
    whole = tokenizer.encode(PLAIN_TEXT)
    assert task.tokens.shape == (6, 1 + tasks.CONTEXT)
    for row, wanted, (_, place) in zip(task.tokens.tolist(), task.answers.tolist(), task.problems, strict=True):
        assert [*row, wanted] == [tokenizer.bos, *whole[place : place + 33]]
    assert not task.undefined
    seen = []

    def remember(model, tokens, first):
        seen.append(tokens)
        return mean_cache.last_token_means(model, tokens, first)

    monkeypatch.setattr(tasks, "last_token_means", remember)
    text_task(run, PLAIN_TEXT, 6)
    assert len(seen[0]) == 2 * 6
    measured = {tuple(row) for row in task.tokens.tolist()}
    assert not measured & {tuple(row) for row in seen[0].tolist()}, "the means come from other windows"
    plain = oracles.all_neurons(bridge, seen[0], range(2, 4))[:, :, -1].mean(1)
    found = list(damages(run, "word", task, sets, 20, 0, True))
    compare(bridge, found, sets, task, plain, True)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda run, folder: text_task(run, "Short.", 20), "at least 64"),
        (lambda run, folder: tasks.read_text(folder / "binary"), "binary cannot be read as UTF-8"),
        (lambda run, folder: tasks.read_text(folder / "missing"), "missing cannot be read as UTF-8"),
        (
            lambda run, folder: tasks.read_text(folder / "binary", "0" * 64),
            "binary has changed since the run began",
        ),
        (lambda run, _: other_task(run, "copying", COPY, "{a} is 0", 20, 0), "next token"),
        (
            lambda run, _: other_task(run, "copying", COPY, "{c}{a}=", 20, 0),
            r"^the task copying: template .* must have the field \{a\}",
        ),
    ],
)
def test_a_task_that_cannot_be_used_is_refused(tiny, tmp_path, make, sentence):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(UserError, match=sentence):
        make(Run(*tiny, 2), tmp_path)


def test_a_task_asks_a_digit_or_the_rows_of_a_table(tmp_path, monkeypatch):
    all_count_as_right(monkeypatch)
    folder = known_folder("embedded:embedded-digits", None)
    run = Run(loading.load(folder), load_tokenizer(folder), 2)
    two_digits = {"operand_min": 10, "operand_max": 99, "answer_min": 10, "answer_max": 99}
    (tmp_path / "counting.csv").write_text(
        "first,second,answer\n" + "".join(f"1{n},1{n + 1},{n + 2}\n" for n in range(8))
    )
    product = {"expression": "a * b", "digit": 1, "operands": {"operand_min": 2, "operand_max": 9}}
    for asked, template, ends in (
        ({"expression": "a", "digit": 1}, "{a}={a}=", lambda a, b: (f"{a}={a}={a // 10}", a % 10)),
        ({"expression": "max(a, b)", "digit": 0}, "{a}+{b}=", lambda a, b: (f"{a}+{b}=", max(a, b) // 10)),
        (product, "{a}+{b}=", lambda a, b: (f"{a}+{b}={a * b // 10}", a * b % 10)),
        (
            {"table": str(tmp_path / "counting.csv")},
            "{first}={second}=1",
            lambda row, _: (f"1{row}=1{row + 1}=1", row + 2),
        ),
    ):
        task = other_task(run, "mine", task_of(asked, two_digits), template, 40, 0)
        texts = ["".join(map(run.tokenizer.text, row[1:])) for row in task.tokens.tolist()]
        found = zip(texts, map(run.tokenizer.text, task.answers.tolist()), strict=True)
        # A problem has the smaller operand first; a template may have the other one first.
        wanted = (
            [{(text, str(digit)) for text, digit in (ends(a, b), ends(b, a))} for _, a, b in task.problems]
            if "table" not in asked
            else [{(text, str(digit)) for text, digit in [ends(b, a)]} for _, a, b in task.problems]
        )
        assert all(one in some for one, some in zip(found, wanted, strict=True))
        # A third of few problems gives the means.
        size = {"table": 6, "a * b": 35}.get("table" if "table" in asked else asked["expression"], 40)
        assert len(texts) == len(set(texts)) == size


def test_a_text_of_windows_has_the_same_lines(tmp_path):
    (tmp_path / "windows").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    assert tasks.read_text(tmp_path / "windows") == "one\ntwo\n"


def test_prompts_that_count_are_answered_correctly_and_come_once(measured, tmp_path):
    two_operators.write_model(tmp_path, True, seed=0)
    run = Run(loading.load(tmp_path), load_tokenizer(tmp_path), LATE[0])
    task = other_task(run, "sum", Arithmetic("a + b", LIMITS), "{a}+{b}=", 30, seed=0)
    rows = task.tokens.tolist()
    assert len(rows) == len({tuple(row) for row in rows}) == 30
    number = {run.tokenizer.encode(str(n))[0]: n for n in range(141)}
    for row, wanted, problem in zip(rows, task.answers.tolist(), task.problems, strict=True):
        a, b = (number[token] for token in row if token in number)
        assert problem == ("sum", min(a, b), max(a, b))
        assert a + b == number[wanted]
        assert a != b


def made_up(seed, cells=("s", "c"), operators=("one", "two"), draws=2, more=()):
    """Damages of two formats in which each set does a known mean damage, and their sets.

    Args:
        more: kinds of sets; all but the last do 3 more.
    """
    rng = np.random.default_rng(seed)
    everyone, sets = np.ones((1, 4), dtype=bool), []
    for operator in operators:
        sets.append(labelled(operator, "circuit", -1, everyone))
        for kind in CONTROLS:
            sets += [labelled(operator, kind, draw, everyone) for draw in range(draws)]
        sets += [labelled(operator, kind, -1, everyone) for kind in more]
    strong = np.array([[3 * (some.label["neurons"] in more[:-1])] for some in sets])
    found = []
    for name in cells:
        for place, task in enumerate((*operators, "copying")):
            values = {m: strong + rng.normal(size=(len(sets), 30 + 10 * place)) for m in METRICS}
            size = 30 + 10 * place
            drawn = generator(7, "bootstrap", name, task).integers(size, size=(50, size))
            every = np.arange(size)
            means = {
                m: np.stack([own[:, sample].mean(1) for sample in (every, *drawn)]) for m, own in values.items()
            }
            for intervention in ("knockout", "keep_only"):
                found.append(Damages(name, task, named(task, size), "", intervention, values, values, means))
    return found, dict.fromkeys(cells, sets)


def test_the_table_by_prompt_has_the_damage_of_sets_with_neurons():
    values = np.array([[1.0, 0, 0], [np.nan] * 3, [0, -1, 1]])
    problems = [("+", 2, 5), ("+", 1, 9), ("+", -1, 3)]
    damage = {"accuracy": values, "probability": values / 2}
    found = Damages("s", "+", problems, "", "knockout", {}, damage, {})
    sets = [labelled("+", name, place, np.ones((1, 2), dtype=bool)) for place, name in enumerate("xyz")]
    table = damage_by_prompt(found, sets)
    check_columns(table, SPECIFICITY_PROMPTS)
    rows = table[["neurons", "seed", "a", "b", "lost"]].itertuples(index=False, name=None)
    assert list(rows) == [
        *[("x", 0, 2, 5, 1), ("x", 0, 1, 9, 0), ("x", 0, -1, 3, 0)],
        *[("z", 2, 2, 5, 0), ("z", 2, 1, 9, -1), ("z", 2, -1, 3, 1)],
    ]
    assert (table["probability"] == table["lost"] / 2).all()
    names = ["format", "task", "operator", "k", "intervention"]
    assert table[names].drop_duplicates().values.tolist() == [["s", "+", "+", 5, "knockout"]]


def test_contrasts_equal_a_plain_computation():
    found, sets = made_up(0)
    table = contrasts_table(found, sets, ["one", "two"])
    rows = table.set_index(["format", "operator", "intervention", "contrast", "task", "metric"])
    by = {(one.format, one.task): one for one in found if one.intervention == "knockout"}
    for name in ("s", "c"):
        one, two = by[name, "one"], by[name, "two"]
        own, other = one.damage["accuracy"][0], two.damage["accuracy"][0]
        row = rows.loc[(name, "one", "knockout", "own_minus_other", "two", "accuracy")]
        assert row["difference"] == pytest.approx(own.mean() - other.mean())
        samples = one.resampled["accuracy"][1:, 0] - two.resampled["accuracy"][1:, 0]
        assert [row["low"], row["high"]] == pytest.approx(np.quantile(samples, [0.025, 0.975]))
        kept = rows.loc[(name, "one", "keep_only", "own_minus_other", "two", "accuracy")]
        assert kept["difference"] == pytest.approx(-row["difference"])
        assert [kept["low"], kept["high"]] == pytest.approx([-row["high"], -row["low"]])
        # The other operator's circuit on the same prompts.
        theirs = next(place for place, one_set in enumerate(sets[name]) if one_set.label["operator"] == "two")
        paired = own - one.damage["accuracy"][theirs]
        row = rows.loc[(name, "one", "knockout", "own_minus_other_circuits", "own", "accuracy")]
        assert row["difference"] == pytest.approx(paired.mean())
        same = generator(7, "bootstrap", name, "one").integers(30, size=(50, 30))
        limits = np.quantile([paired[sample].mean() for sample in same], [0.025, 0.975])
        assert [row["low"], row["high"]] == pytest.approx(limits)
        # Of two kinds of controls the one that does more damage, the draws averaged; paired by prompt.
        kinds = {"random_variance": [1, 2], "random_effect": [3, 4]}
        means = {kind: one.damage["accuracy"][draws].mean(0) for kind, draws in kinds.items()}
        strongest = max(means, key=lambda kind: means[kind].mean())
        row = rows.loc[(name, "one", "knockout", "circuit_minus_control", "own", "accuracy")]
        assert row["control"] == strongest
        difference = own - means[strongest]
        assert row["difference"] == pytest.approx(difference.mean())
        drawn = generator(7, "bootstrap", name, "one").integers(30, size=(50, 30))
        limits = np.quantile([difference[sample].mean() for sample in drawn], [0.025, 0.975])
        # Its two draws differ; a third one may differ as much.
        draws = one.damage["accuracy"][kinds[strongest]].mean(1)
        half = t.ppf(0.975, 1) * draws.std(ddof=1) * np.sqrt(1.5)
        middle = difference.mean()
        expected = [
            middle + sign * np.hypot(limit - middle, half) for sign, limit in zip((-1, 1), limits, strict=True)
        ]
        assert [row["low"], row["high"]] == pytest.approx(expected)
    assert not table.duplicated(["format", "operator", "k", "intervention", "contrast", "task", "metric"]).any()


def test_copying_is_spared_what_it_does_not_lose():
    found, sets = made_up(3)
    for one in found:
        for metric in METRICS:
            one.resampled[metric][:] += {"one": 5, "two": 4, "copying": 1}[one.task]
            one.resampled[metric][:, [1, 2, 3, 4, 6, 7, 8, 9]] -= 3
    table = contrasts_table(found, sets, ["one", "two"], ["copying"]).query("intervention == 'knockout'")
    rows = table.query("contrast == 'own_minus_copied_of_own' and format == 'all' and operator == 'all'")
    by = {(one.format, one.task): one.resampled for one in found if one.intervention == "knockout"}
    for row in rows.to_dict("records"):
        shares = []
        for part in (lambda own, copied: own - copied, lambda own, copied: own):
            values = []
            for (name, operator), place in product(product("sc", ("one", "two")), [0, 5]):
                if (operator == "one") == (place == 0):
                    beyond = []
                    for task in (operator, "copying"):
                        means = by[name, task][row["metric"]]
                        kinds = [
                            means[:, [place + 1, place + 2]].mean(1),
                            means[:, [place + 3, place + 4]].mean(1),
                        ]
                        beyond.append(means[:, place] - max(kinds, key=lambda kind: kind[0]))
                    values.append(part(*beyond))
            shares.append(np.mean(values, axis=0))
        ratio = shares[0] / shares[1]
        assert row["task"] == "all_copying"
        assert [row["first"], row["second"], row["ratio"]] == pytest.approx([shares[0][0], shares[1][0], ratio[0]])
        assert [row["ratio_low"], row["ratio_high"]] == pytest.approx(np.quantile(ratio[1:], [0.025, 0.975]))


COPIES = {
    "yes": (copying_model.write_model, "x = {a} + 0\nprint(x)  # "),
    "no": (partial(planted_models.write_model, shared=True), "{a}+0="),
}
"""By verdict: a model that copies by other neurons than those that add, and one that copies by adding nothing."""


@pytest.mark.parametrize("verdict", COPIES)
def test_neurons_that_compute_are_told_from_those_that_write(verdict, tmp_path):
    write, template = COPIES[verdict]
    write(tmp_path / "model", seed=0)
    run = Run(loading.load(tmp_path / "model"), load_tokenizer(tmp_path / "model"), LATE[0])
    members = np.zeros((len(LATE), run.width), dtype=bool)
    for place, layer in enumerate(LATE):
        members[place, planted_models.planted_neurons(True, seed=0)["symbolic", layer]] = True
    values = {KINDS[kind].matched_by: np.random.default_rng(0).random(members.shape) for kind in CONTROLS}
    sets = circuit_sets("addition", {K: members}, {}, values, Draws(0, DRAWS, 0))
    adding = Arithmetic(planted_models.EXPRESSION, planted_models.LIMITS)
    copying = Arithmetic("a", OperandRange(6, 120, 6, 120))
    chosen = [
        other_task(run, "addition", adding, planted_models.TEMPLATES["symbolic"], 40, 0),
        other_task(run, "copying", copying, template, 40, 0),
    ]
    found = [one for task in chosen for one in damages(run, "symbolic", task, sets, RESAMPLES, 0, center=True)]
    table = ratios(contrasts_table(found, {"symbolic": sets}, ["addition"], ["copying"]))
    rows = table.query("question == 'computed' and operator == 'all'").set_index("metric")
    assert rows["verdict"].eq(verdict).all()
    assert rows.loc["accuracy", "second"] > 0.5
    # Where copying is spared, a control that contains copying neurons costs it more than the circuit does.
    assert rows.loc["accuracy", "ratio"] > 0.9 if verdict == "yes" else rows.loc["accuracy", "ratio"] < 0.1


def test_rankings_by_half_of_the_prompts_widen_the_intervals():
    halves = ["half_1_", "half_2_"]
    more = [f"{half}{name}" for half in ("", *halves) for name in ("circuit", "best_in_s", "best_in_c")][1:]
    found, sets = made_up(3, more=(*more, "random_effect_of_own_best"))
    table = contrasts_table(found, sets, ["one", "two"]).query("intervention == 'knockout'")
    place = {(some.label["operator"], some.label["neurons"]): at for at, some in enumerate(sets["s"])}
    lost = {
        (one.format, one.task): one.damage["probability"].mean(1)
        for one in found
        if one.intervention == "knockout"
    }

    def half_differences(value):
        """By operator, for each format, of a value by the half's name."""
        return np.array(
            [
                [(value(name, operator, halves[0]) - value(name, operator, halves[1])) / 2 for name in "sc"]
                for operator in ("one", "two")
            ]
        )

    def damage(name, operator, neurons, task=None):
        return lost[name, task or operator][place[operator, neurons]]

    def exchanged(name, operator, half, ratio=1.0):
        other = {"s": "c", "c": "s"}[name]
        level = damage(name, operator, "random_effect_of_own_best")
        theirs, own = (damage(name, operator, f"{half}best_in_{form}") - level for form in (other, name))
        return theirs - ratio * own

    chosen = table[table["metric"] == "probability"].set_index(["contrast", "task", "format", "operator"])
    every = chosen.loc["exchanged_minus_own_beyond_control", "own", "all", "all"]
    for contrast, task, value in [
        (
            "own_minus_other",
            "copying",
            lambda *of: damage(*of[:2], of[2] + "circuit") - damage(*of[:2], of[2] + "circuit", "copying"),
        ),
        ("exchanged_minus_own_beyond_control", "own", exchanged),
    ]:
        differences, rows = half_differences(value), chosen.loc[contrast, task]
        own, mean = np.mean(differences.mean(1) ** 2), t.ppf(0.975, 2)
        assert rows.loc["s", "one"]["ranking_noise"] == pytest.approx(mean * np.mean(differences**2) ** 0.5)
        assert rows.loc["all", "two"]["ranking_noise"] == pytest.approx(mean * own**0.5)
        assert rows.loc["all", "all"]["ranking_noise"] == pytest.approx(mean * (own / 2) ** 0.5)
    differences = half_differences(partial(exchanged, ratio=every["ratio"]))
    half = t.ppf(0.975, 2) * (np.mean(differences.mean(1) ** 2) / 2) ** 0.5 / every["second"]
    plain, _ = made_up(3, more=(*more, "random_effect_of_own_best"))
    whole = {name: [some for some in own if "half" not in some.label["neurons"]] for name, own in sets.items()}
    kept = [at for at, some in enumerate(sets["s"]) if "half" not in some.label["neurons"]]
    plain = [
        replace(one, resampled={metric: values[:, kept] for metric, values in one.resampled.items()})
        for one in plain
    ]
    prompts_alone = contrasts_table(plain, whole, ["one", "two"]).query(
        "metric == 'probability' and format == 'all'"
    )
    prompts_alone = prompts_alone.set_index(["intervention", "contrast", "operator"])
    narrow = prompts_alone.loc["knockout", "exchanged_minus_own_beyond_control", "all"]
    assert np.isnan(narrow["ranking_noise"])
    for name, sign in (("ratio_low", -1), ("ratio_high", 1)):
        widened = np.hypot(narrow[name] - narrow["ratio"], half)
        assert every[name] == pytest.approx(every["ratio"] + sign * widened)


def test_the_strongest_of_several_other_circuits_is_subtracted():
    found, sets = made_up(4, operators=("one", "two", "three"))
    table = contrasts_table(found, sets, ["one", "two", "three"]).query("metric == 'probability'")
    rows = table.set_index(["intervention", "format", "operator", "contrast", "task"])
    by = {(one.intervention, one.format): one.damage["probability"] for one in found if one.task == "one"}
    for (intervention, name), damage in by.items():
        means = {"two": damage[5].mean(), "three": damage[10].mean()}
        pick = max if intervention == "knockout" else min
        strongest = pick(means, key=means.get)
        row = rows.loc[intervention, name, "one", "own_minus_other_circuits", "own"]
        assert (row["control"], row["second"]) == (strongest, pytest.approx(means[strongest]))
        for other, mean in means.items():
            row = rows.loc[intervention, name, "one", "own_minus_circuit_of", other]
            assert row["second"] == pytest.approx(mean)


def test_over_cells_every_cell_counts_once():
    found, sets = made_up(2)
    table = contrasts_table(found, sets, ["one", "two"])
    knockout = table[(table["intervention"] == "knockout") & (table["metric"] == "loss")]
    rows = knockout.set_index(["format", "operator", "contrast", "task"]).sort_index()
    by = {(one.format, one.task): one.resampled["loss"] for one in found if one.intervention == "knockout"}
    # The circuits are the first set of either operator; its controls follow.
    circuits = {"one": 0, "two": 5}
    samples = {
        (name, operator): by[name, operator][:, place] - by[name, "copying"][:, place]
        for name in ("s", "c")
        for operator, place in circuits.items()
    }
    for operator, chosen in (("one", ["one"]), ("two", ["two"]), ("all", ["one", "two"])):
        mean = np.mean([samples[name, which] for name in ("s", "c") for which in chosen], axis=0)
        row = rows.loc[("all", operator, "own_minus_other", "copying")]
        assert row["difference"] == pytest.approx(mean[0])
        assert [row["low"], row["high"]] == pytest.approx(np.quantile(mean[1:], [0.025, 0.975]))
        assert (row["cells"], row["prompts"]) == (2 * len(chosen), sum({"one": 60, "two": 80}[c] for c in chosen))


def test_a_ratio_needs_a_damage_above_zero():
    found, sets = made_up(1)
    for one in found:
        for metric in METRICS:
            one.damage[metric][:] = {"one": 3.0, "two": 2.0, "copying": 0.0}[one.task]
            one.resampled[metric][:] = {"one": 3.0, "two": 2.0, "copying": 0.0}[one.task]
    rows = contrasts_table(found, sets, ["one", "two"]).query("contrast == 'own_minus_other'")
    rows = rows.set_index(["format", "operator", "intervention", "task", "metric"])
    row = rows.loc[("s", "one", "knockout", "two", "loss")]
    # The loss has no bounds, so where no resample changes it, nothing is known of its spread.
    assert np.isnan([row["ratio"], row["low"], row["high"]]).all()
    row = rows.loc[("s", "one", "knockout", "two", "accuracy")]
    half = -np.log(0.025) / 30
    assert [row["low"], row["high"]] == pytest.approx([1 - half, 1 + half])
    ratio = [row["ratio"], row["ratio_low"], row["ratio_high"]]
    # On half of a prompt in thirty, the first may be up to 1.5 times a second one that is as low as it may be.
    assert ratio == pytest.approx([1.5, 1.5 - 1.5 * half / (2 - half), 1.5 + 1.5 * half / (2 - half)])
    assert np.isnan(rows.loc[("s", "one", "knockout", "copying", "loss")]["ratio"])
