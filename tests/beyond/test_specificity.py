"""Damage matrices: circuits of their own give a diagonal, a common circuit a flat one; values against hooks."""

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
import two_operators
from planted_models import LATE
from schema_checks import check_columns
from scipy.stats import t
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.specificity import compute, tasks
from form_invariance.beyond.specificity.answer import answer
from form_invariance.beyond.specificity.compute import damages, matrix, neuron_sets
from form_invariance.beyond.specificity.contrasts import contrasts_table
from form_invariance.beyond.specificity.damages import INTERVENTIONS, Damages, damage_by_prompt
from form_invariance.beyond.specificity.figure import (
    damage_matrix,
    exchange_matrix,
)
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.table import SPECIFICITY, SPECIFICITY_CONTRASTS, SPECIFICITY_PROMPTS
from form_invariance.beyond.specificity.tasks import Task, number_task, text_task
from form_invariance.errors import UserError
from form_invariance.experiment.controls import Draws, NeuronSet
from form_invariance.experiment.neuron_sets import KINDS
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import render
from form_invariance.randomness import generator
from form_invariance.stages.mean_cache import compute as mean_cache

LIMITS = OperandRange(6, 60, 12, 140)
K, DRAWS, RESAMPLES = 8, 3, 100


def pairs(seed, count):
    """Operands of which no pair comes twice."""
    drawn = np.random.default_rng(seed).permutation(54 * 54)[:count]
    return [(6 + number // 54, 6 + number % 54) for number in drawn.tolist()]


def prompts(run, operator, chosen):
    """Tokens and answers of an operator's prompts."""
    tokens = run.tokens([render(two_operators.TEMPLATES[operator], *pair) for pair in chosen])
    return tokens, run.answer_tokens(np.array([sum(pair) + 20 * (operator == "shifted") for pair in chosen]))


def ranks_of(circuit, good):
    """Ranks in which the circuit's neurons are the best of their layer, or the worst."""
    return np.argsort(np.argsort(circuit == (not good), axis=1, kind="stable"), axis=1, kind="stable") + 1


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
            for kind in compute.CONTROLS
        }
        circuits = {K: members[operator], 2 * K: np.zeros_like(members[operator])}
        rank = {
            "symbolic": ranks_of(members[operator], good=True),
            "word": ranks_of(members[operator], good=False),
        }
        sets += neuron_sets(operator, circuits, values, rank, Draws(0, DRAWS, 0))
    for name, expression in (("sum", "a + b"), ("copying", "a")):
        chosen.append(number_task(run, name, expression, "{a}+{b}=", LIMITS, 25, seed=0))
    chosen.append(text_task(run, PLAIN_TEXT, 25))
    for task in chosen:
        found += damages(run, "symbolic", task, sets, RESAMPLES, 0, center=True)
    table = pd.concat([matrix(one, sets, True) for one in found], ignore_index=True)
    contrasts = contrasts_table(found, {"symbolic": sets}, list(two_operators.OPERATORS))
    return request.param, sets, table, contrasts


def accuracy_damage(table, intervention, neurons="circuit"):
    rows = table[(table["intervention"] == intervention) & (table["neurons"] == neurons) & (table["k"] == K)]
    return damage_matrix(rows, list(two_operators.OPERATORS), [*two_operators.OPERATORS, "sum"])


def test_circuits_of_their_own_give_a_diagonal_and_a_common_one_a_flat_matrix(measured):
    common, _, table, _ = measured
    check_columns(table, SPECIFICITY)
    lost, kept = (accuracy_damage(table, one) for one in ("knockout", "keep_only"))
    ones = np.ones((2, 3))
    # The task "sum" is addition by another name.
    own = np.array([[1, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(lost, ones if common else own, atol=0.1)
    np.testing.assert_allclose(kept, 0 * ones if common else 1 - own, atol=0.1)
    for kind in compute.CONTROLS:
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
    _, told = answer({"specificity": table, "specificity_contrasts": contrasts}, K)
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
        assert (own["best_in_word"].sum(1) == own["circuit"].sum(1)).all()
        assert not (own["best_in_word"] & own["circuit"]).any()
        knockout = table[(table["k"] == K) & (table["intervention"] == "knockout")]
        matrix = exchange_matrix(knockout, operator, "probability_damage")
        assert matrix.loc["best in symbolic", "symbolic"] == matrix.loc["shared by all", "symbolic"] > 0.02
    exchanged = contrasts.query("contrast == 'exchanged_minus_own_beyond_control' and k == @K")
    exchanged = exchanged.query("operator == 'addition' and format == 'symbolic'")
    row = exchanged.query("intervention == 'knockout' and metric == 'accuracy'").iloc[0]
    damage = table.query("k == @K and intervention == 'knockout' and task == operator == 'addition'")
    means = damage.groupby("neurons")["accuracy_damage"].mean()
    control = max(means[kind] for kind in compute.CONTROLS)
    assert row["first"] == pytest.approx(means["best_in_word"] - control)
    assert row["second"] == pytest.approx(means["best_in_symbolic"] - control)
    assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    # Kept alone, compared with the control that loses least.
    row = exchanged.query("intervention == 'keep_only' and metric == 'probability'").iloc[0]
    damage = table.query("k == @K and intervention == 'keep_only' and task == operator == 'addition'")
    means = damage.groupby("neurons")["probability_damage"].mean()
    control = min(means[kind] for kind in compute.CONTROLS)
    assert row["first"] == pytest.approx(control - means["best_in_word"])
    assert row["second"] == pytest.approx(control - means["best_in_symbolic"])
    assert row["difference"] == pytest.approx(row["first"] - row["second"])
    assert row["ratio"] == pytest.approx(row["first"] / row["second"]) or row["second"] < 0.01


def test_what_the_model_cannot_do_is_undefined_with_its_number(measured):
    _, _, table, contrasts = measured
    cannot = table[table["task"].isin(["copying", "text"])]
    measures = [name for name, column in SPECIFICITY.columns.items() if column.type == "float64"]
    assert cannot[measures].isna().all(axis=None)
    assert cannot.loc[cannot["task"] == "copying", "undefined"].str.startswith("fewer than 20").all()
    assert cannot.loc[cannot["task"] == "copying", "prompts"].lt(20).all()
    assert cannot.loc[cannot["task"] == "text", "undefined"].str.contains("uniform guess").all()
    assert contrasts[contrasts["task"] == "copying"]["verdict"].eq("undefined").all()
    text = answer({"specificity": table, "specificity_contrasts": contrasts}, K)[1].sentence
    assert "Copying: undefined, n = " in text
    assert "Plain text: undefined, n = 25" in text


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
    _, found = answer({"specificity": table, "specificity_contrasts": contrasts}, 2 * K)
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


def test_plain_text_is_cut_in_windows_and_its_damage_equals_hooks(tiny, tiny_folder, monkeypatch):
    model, tokenizer = tiny
    run, bridge = Run(model, tokenizer, 2), oracles.bridge(tiny_folder)
    assert "uniform guess" in text_task(run, PLAIN_TEXT, 6).undefined
    monkeypatch.setattr(tasks, "GUESSING", np.inf)
    task, sets = text_task(run, PLAIN_TEXT, 6), random_sets(model.config.d_mlp)
    whole = tokenizer.encode(PLAIN_TEXT)
    bos, *first = task.tokens[0].tolist()
    assert task.tokens.shape == (6, 1 + tasks.CONTEXT)
    assert (bos, first, int(task.answers[0])) == (tokenizer.bos, whole[:32], whole[32])
    assert [*task.tokens[-1].tolist()[1:], int(task.answers[-1])] == whole[-33:]
    assert not task.undefined
    seen = []

    def remember(model, tokens, first):
        seen.append(tokens)
        return mean_cache.last_token_means(model, tokens, first)

    monkeypatch.setattr(tasks, "last_token_means", remember)
    text_task(run, PLAIN_TEXT, 6)
    assert len(seen[0]) == 5 * 6
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
        (lambda run, _: number_task(run, "copying", "a", "{a} is 0", LIMITS, 20, 0), "next token"),
        (
            lambda run, _: number_task(run, "copying", "a", "{c}{a}=", LIMITS, 20, 0),
            r"^the task copying: template .* must have the field \{a\}",
        ),
    ],
)
def test_a_task_that_cannot_be_used_is_refused(tiny, tmp_path, make, sentence):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(UserError, match=sentence):
        make(Run(*tiny, 2), tmp_path)


def test_a_text_of_windows_has_the_same_lines(tmp_path):
    (tmp_path / "windows").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    assert tasks.read_text(tmp_path / "windows") == "one\ntwo\n"


def test_prompts_that_count_are_answered_correctly_and_come_once(measured, tmp_path):
    two_operators.write_model(tmp_path, True, seed=0)
    run = Run(loading.load(tmp_path), load_tokenizer(tmp_path), LATE[0])
    task = number_task(run, "sum", "a + b", "{a}+{b}=", LIMITS, 30, seed=0)
    rows = task.tokens.tolist()
    assert len(rows) == len({tuple(row) for row in rows}) == 30
    number = {run.tokenizer.encode(str(n))[0]: n for n in range(141)}
    for row, wanted, problem in zip(rows, task.answers.tolist(), task.problems, strict=True):
        a, b = (number[token] for token in row if token in number)
        assert problem == ("sum", min(a, b), max(a, b))
        assert a + b == number[wanted]
        assert a != b


def made_up(seed, cells=("s", "c"), operators=("one", "two"), draws=2):
    """Damages of two formats in which each set does a known mean damage, and their sets."""
    rng = np.random.default_rng(seed)
    sets = []
    for operator in operators:
        sets.append(labelled(operator, "circuit", -1, np.ones((1, 4), dtype=bool)))
        for kind in compute.CONTROLS:
            sets += [labelled(operator, kind, draw, np.ones((1, 4), dtype=bool)) for draw in range(draws)]
    found = []
    for name in cells:
        for place, task in enumerate((*operators, "copying")):
            values = {m: rng.normal(size=(len(sets), 30 + 10 * place)) for m in compute.METRICS}
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
        for metric in compute.METRICS:
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
