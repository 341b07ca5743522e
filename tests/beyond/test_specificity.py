"""Damage matrices: circuits of their own give a diagonal, a common circuit a flat one; values against hooks."""

from functools import partial
from itertools import combinations, product
from types import SimpleNamespace

import measured
import numpy as np
import oracles
import pandas as pd
import planted_models
import pytest
import torch
import two_operators
from measured import contrasts_of
from planted_models import LATE
from scipy.stats import t
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.specificity import tasks
from form_invariance.beyond.specificity.answer import answer
from form_invariance.beyond.specificity.compute import damages, matrix
from form_invariance.beyond.specificity.damages import measured_prompts
from form_invariance.beyond.specificity.figure import exchange_matrix, unmodified_probability
from form_invariance.beyond.specificity.neuron_sets import best_sets, circuit_sets
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.table import CONTROLS, SPECIFICITY
from form_invariance.beyond.specificity.tasks import Task, other_task, text_task
from form_invariance.errors import UserError
from form_invariance.experiment.contrasts.engine import problems_of, resampled, resampling
from form_invariance.experiment.contrasts.entries import CONTRASTS as ENTRIES
from form_invariance.experiment.contrasts.noise import half_of
from form_invariance.experiment.contrasts.questions import QUESTIONS, SERVES
from form_invariance.experiment.contrasts.verdicts import rows_of
from form_invariance.experiment.controls import Draws, NeuronSet
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.neuron_sets import HALVES, KINDS
from form_invariance.experiment.run import Run
from form_invariance.problems.configured import task_of
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import render
from form_invariance.stages.mean_cache import compute as mean_cache

LIMITS = OperandRange(6, 60, 12, 140)
K, DRAWS, RESAMPLES = 8, 3, 100
COPY = Arithmetic("a", LIMITS)
HERE = [name for name, entry in ENTRIES.items() if entry.means == "task"]
"""The contrasts of specificity."""


def effects_of(effects, name):
    """Effects (late layers, draws, prompts, m) of a format."""
    layers, width = range(LATE[0], LATE[0] + len(effects)), effects.shape[-1]
    everyone = dict.fromkeys(layers, np.arange(width))
    return Effects(dict(zip(layers, effects, strict=True)), everyone, width, name)


def test_the_effect_of_a_neuron_that_was_no_candidate_is_not_known():
    effects = np.array([[[[1.0, 3], [3, 5]]], [[[0, -1], [0, -3]]]])  # (layers, draws, prompts, candidates)
    found = Effects(dict(enumerate(effects)), {0: np.array([0, 3]), 1: np.array([2, 1])}, 4)
    for layer, means in enumerate([[2, np.nan, np.nan, 4], [np.nan, -2, 0, np.nan]]):
        np.testing.assert_array_equal(found.means(layer), means)


def values_of(seed, shape):
    """What controls are matched by."""
    rng = np.random.default_rng(seed)
    return {KINDS[kind].matched_by: rng.random(shape) for kind in CONTROLS}


def by_prompt(found, sets, *formats):
    """The table by prompt, with a prompt of other formats, whose neurons are tried."""
    parts = [rows for one in found if one.before for rows in measured_prompts(one, sets)]
    return pd.concat([*parts, *(parts[-1][:1].assign(format=name) for name in formats)], ignore_index=True)


@pytest.fixture(scope="module", params=[False, True], ids=["own", "common"])
def tables_of(request, tmp_path_factory):
    """Whether the circuit is common; both tables of the constructed model."""
    folder = tmp_path_factory.mktemp("two") / "model"
    members = two_operators.write_model(folder, request.param, seed=0)
    run = planted_models.run_of(folder)
    found, sets, chosen, rng = [], [], [], np.random.default_rng(0)
    for place, operator in enumerate(two_operators.OPERATORS):
        numbers, own = np.random.default_rng(place).permutation(54 * 54)[:200].tolist(), members[operator]
        problems = [(6 + number // 54, 6 + number % 54) for number in numbers]
        prompts = [render(two_operators.TEMPLATES[operator], *pair) for pair in problems]
        means = mean_cache.compute(run.model, run.tokenizer, [prompts[:160]])
        asked = np.array(problems[160:])
        answers = run.answer_tokens(asked.sum(1) + 20 * (operator == "shifted"))
        of_operator = [(operator, *pair) for pair in problems[160:]]
        chosen.append(Task(operator, run.tokens(prompts[160:]), answers, means, of_operator))
        values, circuits = values_of(place, own.shape), {K: own, 2 * K: np.zeros_like(own)}
        # In one format the circuit's neurons are the best, in the other they are the worst.
        noise, best = rng.random((len(own), 2, 6, own.shape[1])) / 10, own[:, None, None]
        effects = {"symbolic": np.where(best, 1 + noise, -noise), "word": np.where(best, -noise, 1 + noise)}
        formats = {name: effects_of(some, name) for name, some in effects.items()}
        draws = Draws(0, DRAWS, 0)
        sets += circuit_sets(operator, circuits, {}, values, draws)
        sets += best_sets(operator, "symbolic", formats, [K], values, draws, two_operators.OPERATORS)
    for name, expression in (("sum", "a + b"), ("copying", "a")):
        chosen.append(other_task(run, name, Arithmetic(expression, LIMITS), "{a}+{b}=", 25, seed=0))
    chosen.append(text_task(run, PLAIN_TEXT, 25))
    for task in chosen:
        found += damages(run, "symbolic", task, sets, RESAMPLES, 0, center=True)
    table = pd.concat([matrix(one, sets, True) for one in found], ignore_index=True)
    contrasts = contrasts_of(by_prompt(found, sets, "word"), HERE, [K, 2 * K], RESAMPLES, 0, ["copying"])
    return request.param, table, contrasts


def accuracy_damage(table, intervention, neurons="circuit"):
    rows = table[(table["intervention"] == intervention) & (table["neurons"] == neurons) & (table["k"] == K)]
    matrix = rows.pivot_table(index="operator", columns="task", values="accuracy_damage")
    return matrix.loc[two_operators.OPERATORS, [*two_operators.OPERATORS, "sum"]].astype(float)


def test_circuits_of_their_own_give_a_diagonal_and_a_common_one_a_flat_matrix(tables_of):
    common, table, contrasts = tables_of
    lost, kept = (accuracy_damage(table, one) for one in ("knockout", "keep_only"))
    # The task "sum" is addition by another name.
    own = np.array([[1, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(lost, np.ones((2, 3)) if common else own, atol=0.1)
    np.testing.assert_allclose(kept, np.zeros((2, 3)) if common else 1 - own, atol=0.1)
    controls = np.stack([np.diag(accuracy_damage(table, "knockout", kind)) for kind in CONTROLS])
    assert (controls < (0.1 if common else 0.5)).all()

    chosen = contrasts.query("format == operator == 'all' and metric == 'probability' and k == @K")
    found = chosen.query("intervention == 'knockout'").set_index(["contrast", "task"])
    *_, told = answer({"specificity": table, "contrasts": contrasts}, K)
    for contrast, task, words in (
        ("own_minus_other", "own", "own answers {first} probability, the other operators' {second} ("),
        ("circuit_minus_control", "own", "the strongest control costs its own {second} (difference {told})"),
        ("own_minus_other_beyond_control", "own", "beyond its control: {told}."),
        ("own_minus_other_circuits", "own", "cost the own answers {second}; own minus theirs: {told}."),
    ):
        row = found.loc[contrast, task]
        numbers = {name: f"{row[name]:z.3f}" for name in ("first", "second", "difference", "low", "high")}
        tiny = ", tiny" if row["verdict"] == "yes" and row["difference"] < 0.05 else ""
        difference = f"{numbers['difference']} [{numbers['low']}, {numbers['high']}]: {row['verdict']}{tiny}"
        assert words.format(**numbers, told=difference) in told.sentence


def test_the_best_neurons_of_a_format_are_knocked_out_in_another(tables_of):
    _, table, contrasts = tables_of
    knockout = table[(table["k"] == K) & (table["intervention"] == "knockout")]
    both = knockout.query("task == operator").eval("whole = probability + probability_damage")
    # What was there does not depend on what is knocked out.
    assert both.groupby("operator")["whole"].std().max() < 1e-9
    assert unmodified_probability(table, K) == pytest.approx(both.groupby("operator")["whole"].mean().mean())
    low, value, high = (table[f"probability_{name}"].dropna() for name in ("low", "damage", "high"))
    assert ((low <= value + 1e-9) & (value <= high + 1e-9)).all()
    assert (low < high).any()
    matrix = exchange_matrix(knockout, "addition", "probability_damage")
    assert matrix.loc["best in symbolic", "symbolic"] == matrix.loc["shared by all", "symbolic"] > 0.02
    others = knockout.query("task == 'addition' != operator and format == 'symbolic' and neurons == 'circuit'")
    assert matrix.loc["other operators', mean", "symbolic"] == others["probability_damage"].mean()
    exchanged = contrasts.query("k == @K and operator == 'addition' and format == 'symbolic'")
    exchanged = exchanged.set_index(["intervention", "metric", "contrast", "task"]).sort_index()
    for intervention, metric, sign in (("knockout", "probability", 1), ("keep_only", "probability", -1)):
        rows = table.query("k == @K and intervention == @intervention and task == 'addition'")
        means = sign * rows.groupby(["operator", "neurons"])[f"{metric}_damage"].mean()
        own, foreign = means["addition"], means["shifted", "best_in_word"]
        control = max(own[f"{kind}_of_own_best"] for kind in CONTROLS)
        of_part = max(own[f"{kind}_of_only_in_word"] for kind in CONTROLS)
        here, there = own["best_in_symbolic"], own["best_in_word"]
        half = (own["half_1_best_in_symbolic"] + own["half_2_best_in_symbolic"]) / 2
        found = exchanged.loc[intervention, metric]
        for contrast, first, second in (
            ("exchanged_minus_own_beyond_control", there - control, here - control),
            ("half_minus_own_beyond_control", half - control, here - control),
            ("exchanged_minus_other_operators_best", there, foreign),
            ("other_only_minus_control", own["only_in_word"], of_part),
        ):
            row = found.loc[contrast, "own"]
            assert (row["first"], row["second"]) == pytest.approx((first, second)), contrast
            assert row["difference"] == pytest.approx(first - second)
        assert np.isnan(found.loc["common_minus_control", "own"]["first"]), "they have nothing in common"
        if intervention == "knockout":
            losses = found.droplevel("task")["first"]
            names = [
                f"loss_of_{name}" for name in ("own_best", "other_formats_best", "other_operators_best", "matched")
            ]
            assert losses[names].tolist() == pytest.approx([here, there, foreign, control])
            assert np.isnan(losses["loss_of_copying"]), "the model cannot copy"


def test_parts_of_two_formats_best_are_cut_by_membership_and_prompts():
    rng = np.random.default_rng(0)
    k, formats = 6, {name: effects_of(rng.normal(size=(2, 2, 8, 30)), name) for name in "xyz"}
    values = values_of(0, (2, 30))
    found = list(best_sets("+", "x", formats, [k], values, Draws(0, 3, 0), ["+", "-"]))
    own = {(one.label["neurons"], one.label["seed"]): one.members for one in found}
    assert len(own) == len(found)

    def best(name, chosen=slice(None)):
        means = np.stack([own.mean(0)[chosen].mean(0) for own in formats[name].effects.values()])
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
    first, second = own["half_1_best_in_x", -1], own["half_2_best_in_x", -1]
    split = [half for half in combinations(range(8), 4) if (first == best("x", list(half))).all()]
    rest = [[place for place in range(8) if place not in half] for half in split]
    assert any((second == best("x", other)).all() for other in rest)
    tasks = {one.label["neurons"]: one.tasks for one in found}
    assert tasks["best_in_y"] == ("+", "-")
    assert {some for name, some in tasks.items() if "best_in_" not in name} == {("+",)}


def test_what_the_model_cannot_do_and_a_circuit_without_neurons_are_undefined_and_never_zero(tables_of):
    _, table, contrasts = tables_of
    measures = [name for name, column in SPECIFICITY.columns.items() if column.type == "float64"]
    cannot, empty = table[table["task"].isin(["copying", "text"])], table[table["k"] == 2 * K]
    assert cannot[measures].isna().all(axis=None)
    assert cannot["undefined"].str.startswith("fewer than 20").all()
    assert empty[measures].isna().all(axis=None)
    assert empty.loc[empty["task"] == "addition", "undefined"].eq("no neuron is shared").all()
    rows = contrasts[(contrasts["task"] == "all_copying") | (contrasts["k"] == 2 * K)]
    assert rows["verdict"].eq("undefined").all()
    assert rows["cells"].eq(0).all()
    tables = {"specificity": table, "contrasts": contrasts}
    assert answer(tables, K)[1].sentence == "Undefined at k = 8: no task that copies has 20 right answers."
    assert answer(tables, 2 * K)[1].sentence == "Undefined at k = 16: no neuron is shared."
    nothing = "Undefined at k = 16: no neuron is shared, or no control could be drawn."
    assert answer(tables, 2 * K)[-1].sentence == nothing


def named(task, size):
    return [(task, place) for place in range(size)]


def labelled(operator, neurons, draw, members):
    return NeuronSet({"operator": operator, "neurons": neurons, "k": 5, "seed": draw}, members)


@pytest.mark.parametrize("center", [True, False])
def test_damages_equal_hooks(tiny, run, tiny_folder, center):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "word")
    plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["word"], 4)[2:]
    task = Task("one", tokens, answers, means, named("one", len(tokens)))
    drawn = np.random.default_rng(3).random((2, 2, model.config.d_mlp)) < 0.3
    sets = [labelled(name, "circuit", -1, members) for name, members in zip(("one", "two"), drawn, strict=True)]
    bridge = oracles.bridge(tiny_folder)

    def hooked(mask):
        z = oracles.ablated(bridge, tokens, 2, mask, plain, slice(-1, None))
        return oracles.readout(z, answers, center)

    before = hooked(torch.zeros(2, model.config.d_mlp, dtype=torch.bool))
    for one in damages(run, "word", task, sets, 20, 0, center):
        for row, chosen in enumerate(sets):
            mask = torch.from_numpy(chosen.members)
            for metric, values in hooked(mask if one.intervention == "knockout" else ~mask).items():
                limit = 1e-7 if metric == "probability" else 2e-4
                np.testing.assert_allclose(one.ablated[metric][row], values, atol=limit)
                damage = (before[metric] - values) * (-1 if metric == "loss" else 1)
                np.testing.assert_allclose(one.damage[metric][row], damage, atol=limit)
            assert np.abs(one.damage["loss"][row]).max() > 1e-3, "the ablation did nothing"
        drawn = resampled(one.damage["loss"], resampling(task.problems, 20, 0))
        np.testing.assert_array_equal(one.resampled["loss"], drawn)


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


def made_up(seed, operators=("one", "two"), more=(), twice=0, size=30, values=None):
    """What each set (rows) costs each prompt, and the problems, by format and task; and the table by prompt.

    Sets of a kind in `more`, except the last kind, do 3 more damage. The first problems are asked `twice`.
    """
    rng = np.random.default_rng(seed)
    kinds = [("circuit", -1), *product(CONTROLS, (0, 1)), *product(more, (-1,))]
    sets = [(operator, *kind) for operator in operators for kind in kinds]
    strong = np.array([[3 * (neurons in more[:-1])] for _, neurons, _ in sets])
    found, parts = {}, []
    for name, (place, task) in product("sc", enumerate((*operators, "copying"))):
        prompts = size + 10 * place
        asked = np.array([*range(prompts - twice), *range(twice)])
        own = (
            rng.normal(size=(len(sets), prompts))
            if values is None
            else np.full((len(sets), prompts), values(task))
        )
        lost = strong + own
        found[name, task] = lost, problems_of(task, asked, asked)
        index = pd.MultiIndex.from_tuples([*sets, (task, "none", -1)], names=["operator", "neurons", "seed"])
        wide = pd.DataFrame(np.vstack([-lost, np.zeros((1, prompts))]), index)
        rows = wide.melt(ignore_index=False, var_name="index", value_name="probability").reset_index()
        rows = rows.assign(format=name, task=task, a=asked[rows["index"]], b=asked[rows["index"]])
        unmodified = rows["neurons"] == "none"
        rows = rows.assign(k=np.where(unmodified, 0, 5), correct=rows["probability"])
        parts += [
            rows.assign(intervention=np.where(unmodified, "good", "knockout")),
            rows[~unmodified].assign(
                intervention="keep_only", **{name: -rows[name] for name in ("correct", "probability")}
            ),
        ]
    return found, sets, measured.rows_of(pd.concat(parts, ignore_index=True))


def means_of(found, resamples=50):
    """Means (1 + R, sets) in the engine's resamples, by format and task."""
    return {key: resampled(lost, resampling(asked, resamples, 0)) for key, (lost, asked) in found.items()}


def beyond_control(means):
    """What a task loses to the circuit "one" beyond the stronger control, (1 + R,), its kind, and by each draw."""
    places = {"random_variance": [1, 2], "random_effect": [3, 4]}
    kind = max(places, key=lambda kind: means[0, places[kind]].mean())
    return means[:, 0] - means[:, places[kind]].mean(1), kind, means[0, places[kind]]


def check(row, samples, control=None, half=0.0):
    """A row is a mean (1 + R,) with its interval, widened by `half` of that of a further error."""
    low, high = np.quantile(samples[1:], [0.025, 0.975]) - samples[0]
    limits = samples[0] + [-np.hypot(low, half), np.hypot(high, half)]
    assert control in (None, row["control"])
    assert [row["difference"], row["low"], row["high"]] == pytest.approx([samples[0], *limits])


def strongest_of_others(lost, asked, others, resamples=50):
    """What a set costs minus the other that the problems of the other half choose, (1 + R,); the two choices."""
    numbers, chosen = {}, []
    for problem in asked:
        numbers.setdefault(problem, len(numbers))
    half = [numbers[problem] % 2 for problem in asked]
    for which in (0, 1):
        prompts = [prompt for prompt, of in enumerate(half) if of != which]
        chosen.append(int(np.argmax([lost[other][prompts].mean() for other in others])))
    values = [lost[0][prompt] - lost[others[chosen[of]]][prompt] for prompt, of in enumerate(half)]
    return np.array([np.average(values, weights=times) for times in resampling(asked, resamples, 0).T]), chosen


def test_contrasts_equal_a_plain_computation():
    found, _, table = made_up(0, operators=("one", "two", "three"), twice=5)
    table = contrasts_of(table, HERE, [5], 50, 0, ["copying"])
    keys = ["format", "operator", "intervention", "contrast", "task", "metric"]
    assert not table.duplicated(keys).any()
    rows = table.query("operator == 'one' and metric == 'probability' and intervention == 'knockout'")
    rows, means = rows.set_index(["format", "contrast", "task"]).sort_index(), means_of(found)
    alike, controls, noise = set(), set(), t.ppf(0.975, 1) * np.sqrt(1.5)
    for name in "sc":
        one, others, row = means[name, "one"], [means[name, task] for task in ("two", "three")], rows.loc[name]
        elsewhere = np.mean(others, axis=0)
        check(row.loc["own_minus_other", "own"], one[:, 0] - elsewhere[:, 0], "")
        # The other operators' circuits on the same prompts: the one that does most.
        samples, chosen = strongest_of_others(*found[name, "one"], [5, 10])
        names = {("two", "three")[place] for place in chosen}
        control = names.pop() if len(names) == 1 else "strongest by each half"
        check(row.loc["own_minus_other_circuits", "own"], samples, control)
        controls.add(control)
        # Of two kinds of controls the one that does more damage. Its two draws differ; a third may differ as much.
        (own, kind, draws), (other, other_kind, other_draws) = map(beyond_control, (one, elsewhere))
        for task, (lost, of, drawn) in (
            ("own", (own, kind, draws)),
            ("other_operators", (other, other_kind, other_draws)),
        ):
            check(row.loc["circuit_minus_control", task], lost, of, noise * drawn.std(ddof=1))
        copied, of, drawn = beyond_control(means[name, "copying"])
        for task in ("copying", "all_copying"):
            check(row.loc["circuit_minus_control", task], copied, of, noise * drawn.std(ddof=1))
        # A draw of one kind is the same neurons on both tasks.
        streams = {kind: draws}
        streams[other_kind] = streams.get(other_kind, 0) - other_draws
        check(row.loc["own_minus_other_beyond_control", "own"], own - other, half=half_of(streams))
        spared = row.loc["own_minus_copied_of_own", "own"]
        assert (spared["first"], spared["second"]) == pytest.approx(((own - copied)[0], own[0]))
        alike.add(kind == other_kind)
    assert alike == {True, False} or controls
    # Over cells every cell counts once.
    (row,) = table.query(
        "format == operator == 'all' and contrast == 'own_minus_other' and metric == 'probability'"
    ).to_dict("records")
    places, values = {"one": 0, "two": 5, "three": 10}, []
    for name, (operator, place) in product("sc", places.items()):
        others = np.mean([means[name, other] for other in places if other != operator], axis=0)
        values.append((means[name, operator] - others)[:, place])
    check(row, np.mean(values, axis=0))
    assert (row["cells"], row["prompts"]) == (6, 2 * (30 + 30 + 30)), "the fewest of several tasks"


COPIES = {
    "yes": (planted_models.write_copying, "x = {a} + 0\nprint(x)  # "),
    "no": (partial(planted_models.write_model, shared=True), "{a}+0="),
}
"""By verdict: a model that copies by other neurons than those that add, and one that copies by adding nothing."""


@pytest.mark.parametrize("verdict", COPIES)
def test_neurons_that_compute_are_told_from_those_that_write(verdict, tmp_path):
    write, template = COPIES[verdict]
    write(tmp_path / "model", seed=0)
    run = planted_models.run_of(tmp_path / "model")
    neurons = planted_models.planted_neurons(True, seed=0)
    members = np.stack([np.isin(np.arange(run.width), neurons["symbolic", layer]) for layer in LATE])
    sets = circuit_sets("addition", {K: members}, {}, values_of(0, members.shape), Draws(0, DRAWS, 0))
    adding = Arithmetic(planted_models.EXPRESSION, planted_models.LIMITS)
    copying = Arithmetic("a", OperandRange(6, 120, 6, 120))
    asked = {"addition": (adding, planted_models.TEMPLATES["symbolic"]), "copying": (copying, template)}
    chosen = [other_task(run, name, *task, 40, 0) for name, task in asked.items()]
    found = [one for task in chosen for one in damages(run, "symbolic", task, sets, RESAMPLES, 0, center=True)]
    contrasts = contrasts_of(by_prompt(found, sets), HERE, [K], RESAMPLES, 0, ["copying"])
    matrices = pd.concat([matrix(one, sets, True) for one in found], ignore_index=True)
    *_, told = answer({"specificity": matrices, "contrasts": contrasts}, K)
    assert told.sentence.endswith(": yes, tiny). No other operator can be compared.")
    computed = QUESTIONS["computed"].parts.values()
    rows = pd.concat(rows_of(part, contrasts) for part in computed).query("operator == 'all'").set_index("metric")
    assert rows["verdict"].eq(verdict).all()
    assert rows.loc["accuracy", "second"] > 0.5
    # Where copying is spared, a control that contains copying neurons costs it more than the circuit does.
    assert rows.loc["accuracy", "ratio"] > 0.9 if verdict == "yes" else rows.loc["accuracy", "ratio"] < 0.1


def test_rankings_by_half_of_the_prompts_widen_the_intervals():
    best = ["best_in_s", "best_in_c"]
    of_half = [half + kind for half in HALVES for kind in ("circuit", *best)]
    kinds = [*best, *of_half, "random_effect_of_own_best"]
    found, sets, table = made_up(3, more=kinds)
    places = {(operator, neurons): place for place, (operator, neurons, _) in enumerate(sets)}

    def lost(name, task, operator, neurons):
        return found[name, task][0][places[operator, neurons]].mean()

    def contrasts(table):
        table = contrasts_of(table, HERE, [5], 50, 0, ["copying"])
        rows = table.query("intervention == 'knockout' and metric == 'probability' and task == 'own'")
        return rows.set_index(["contrast", "format", "operator"]).sort_index()

    def elsewhere(name, operator, half):
        other = {"one": "two", "two": "one"}[operator]
        return lost(name, operator, operator, half + "circuit") - lost(name, other, operator, half + "circuit")

    def exchanged(name, operator, half, ratio=1.0):
        level = lost(name, operator, operator, "random_effect_of_own_best")
        forms = "sc" if name == "s" else "cs"
        own, theirs = (lost(name, operator, operator, f"{half}best_in_{form}") - level for form in forms)
        return theirs - ratio * own

    def half_differences(value):
        by_half = [[[value(name, op, half) for name in "sc"] for op in ("one", "two")] for half in HALVES]
        return (np.array(by_half[0]) - np.array(by_half[1])) / 2

    rows, mean = contrasts(table), t.ppf(0.975, 2)
    exchange = "exchanged_minus_own_beyond_control"
    for contrast, value in (("own_minus_other", elsewhere), (exchange, exchanged)):
        differences, of = half_differences(value), rows.loc[contrast]
        own = np.mean(differences.mean(1) ** 2)
        assert of.loc["s", "one"]["ranking_noise"] == pytest.approx(mean * np.mean(differences**2) ** 0.5)
        assert of.loc["all", "two"]["ranking_noise"] == pytest.approx(mean * own**0.5)
        assert of.loc["all", "all"]["ranking_noise"] == pytest.approx(mean * (own / 2) ** 0.5)
    # The same sets, of which nobody knows that they are ranked by halves.
    unknown = contrasts(table.assign(neurons=table["neurons"].str.replace("half", "x")))
    wide, narrow = (some.loc[(exchange, "all", "all")] for some in (rows, unknown))
    assert np.isnan(narrow["ranking_noise"])
    differences = half_differences(partial(exchanged, ratio=wide["ratio"])).mean(1)
    half = mean * (np.mean(differences**2) / 2) ** 0.5 / wide["second"]
    for name, sign in (("ratio_low", -1), ("ratio_high", 1)):
        assert wide[name] == pytest.approx(wide["ratio"] + sign * np.hypot(narrow[name] - narrow["ratio"], half))
    # What serves by its interval decides the question, not the difference.
    part = QUESTIONS["exchange"].parts["probability"]
    told = rows_of(part, rows.reset_index()).set_index(["format", "operator"]).loc[("all", "all")]
    assert [told["difference"], told["low"]] == pytest.approx([wide["ratio"] - SERVES, wide["ratio_low"] - SERVES])


def test_a_ratio_needs_a_value_above_zero():
    *_, table = made_up(1, values={"one": 3.0, "two": 2.0, "copying": 0.0}.get)
    rows = contrasts_of(table, HERE, [5], 50, 0, ["copying"]).query("format == 's' and operator == 'one'")
    rows = rows.set_index(["contrast", "metric", "task"]).sort_index()
    row = rows.loc[("own_minus_other", "probability", "own")]
    half = -np.log(0.025) / 30
    assert [row["low"], row["high"]] == pytest.approx([1 - half, 1 + half])
    ratio = [row["ratio"], row["ratio_low"], row["ratio_high"]]
    # On half of a prompt in thirty, the first may be up to 1.5 times a second one that is as low as it may be.
    assert ratio == pytest.approx([1.5, 1.5 - 1.5 * half / (2 - half), 1.5 + 1.5 * half / (2 - half)])
    assert np.isnan(rows.loc[("circuit_minus_control", "probability", "copying")]["ratio"])
