"""Knockouts along the dose: changes of equal norm and direct ones against hooks, sets by brute force."""

from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from oracles import at_last_token
from planted_models import run_of
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.dose import compute
from form_invariance.beyond.dose.neuron_sets import best_controls, equal_norm_masks, parts_of_best, ranked_sets
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.intervene import start
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.ranked_sets import circuit_controls, ranked

FIRST, LAYERS, NAME = 2, 4, "symbolic"


@pytest.fixture(scope="module", params=["llama", "gpt2", "gpt-neox", "gemma2"])
def hooked(request, family_folders):
    """A small model, its prompts, its means by hooks, and the model in TransformerLens."""
    folder = family_folders[request.param]
    run = run_of(folder, FIRST)
    tokens, answers, means = prepare(run.model, run.tokenizer, NAME)
    plain, *halves = (
        plain_means(folder, run.tokenizer, some, LAYERS)[FIRST:, -1]
        for some in (CACHE_PROMPTS[NAME], CACHE_PROMPTS[NAME][::2], CACHE_PROMPTS[NAME][1::2])
    )
    masks = np.random.default_rng(0).random((3, LAYERS - FIRST, run.width)) < 0.3
    return SimpleNamespace(
        bridge=oracles.bridge(folder),
        tokens=tokens,
        answers=answers,
        means=means,
        plain=plain,
        halves=halves,
        masks=masks,
        started=start(run, tokens, answers, center=True),
        family=request.param,
    )


def check(found, z, answers):
    expected = oracles.readout(z, answers, center=True)
    np.testing.assert_allclose(found.probability, expected["probability"], atol=2e-6)
    np.testing.assert_allclose(found.margin, expected["margin"], atol=1e-4)
    assert found.predicted.tolist() == z.argmax(-1).tolist()


def test_a_direct_change_reaches_the_unembedding_alone(hooked):
    """The oracle adds up what each layer alone changes of its own output."""
    outputs = [f"blocks.{layer}.hook_out" for layer in range(FIRST, LAYERS)]
    _, unchanged = hooked.bridge.run_with_cache(hooked.tokens, names_filter=outputs)
    for row, mask in enumerate(hooked.masks):
        total = 0
        for late, output in enumerate(outputs):
            seen = []

            def ablate(post, late=late, mask=mask):
                return torch.where(torch.from_numpy(mask[late]), hooked.plain[late], post)

            hooks = [
                (oracles.neurons_at(FIRST + late), at_last_token(ablate)),
                (output, lambda x, hook, seen=seen: seen.append(x[:, -1].clone())),
            ]
            oracles.last_logits(hooked.bridge, hooked.tokens, hooks)
            total = total + seen[0] - unchanged[output][:, -1]
        z = oracles.last_logits(hooked.bridge, hooked.tokens, [(outputs[-1], at_last_token(lambda x: x + total))])
        check(compute.direct(hooked.started, hooked.masks, hooked.means)[row], z, hooked.answers)


def test_changes_of_equal_norm_are_those_of_the_knockout_for_each_prompt_and_layer(hooked):
    if hooked.family == "gemma2":
        pytest.skip("its norm after the MLP makes the oracle another one")
    members, *others = hooked.masks
    rng = np.random.default_rng(1)
    along = rng.normal(size=(2, LAYERS - FIRST, hooked.started.run.model.config.d_model))
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    norms = {}

    def change(post, late, mask):
        moved = torch.where(torch.from_numpy(mask[late]), hooked.plain[late] - post, 0)
        return moved, moved @ hooked.started.run.model.layers[FIRST + late].down.T

    def reference(late):
        def value(post):
            moved, written = change(post, late, members)
            norms[late] = written.norm(dim=-1, keepdim=True)
            return post + moved

        return value

    def scaled(late, mask):
        def value(post):
            moved, written = change(post, late, mask)
            return post + moved * norms[late] / written.norm(dim=-1, keepdim=True)

        return value

    late = range(LAYERS - FIRST)

    def run(hook_name, values):
        hooks = [(hook_name(FIRST + i), at_last_token(values(i))) for i in late]
        return oracles.last_logits(hooked.bridge, hooked.tokens, hooks)

    run(oracles.neurons_at, reference)
    expected = [run(oracles.neurons_at, lambda i, mask=mask: scaled(i, mask)) for mask in others]
    for vector in torch.from_numpy(along).float():
        expected.append(
            run("blocks.{}.mlp.hook_out".format, lambda i, v=vector: lambda written: written + norms[i] * v[i])
        )
    found = compute.of_equal_norm(hooked.started, members, np.array(others), along, hooked.means)
    for row, z in enumerate(expected):
        check(found[row], z, hooked.answers)


FORMATS, OPERATORS, WIDTH = ("symbolic", "code", "word"), ("sum", "difference"), 40


def cells_of(width=WIDTH, none=""):
    """Effects of six cells. Neurons 0 to 29 of a layer are candidates; those of operator `none` are negative."""
    rng, cells = np.random.default_rng(0), {}
    for operator in OPERATORS:
        common = rng.normal(size=(2, 30))
        for name in FORMATS:
            values = common[:, None] + rng.normal(size=(2, 8, 30)) + (1 if operator != none else -99)
            of_layers = {FIRST + i: own[None].astype(np.float32) for i, own in enumerate(values)}
            cells[name, operator] = Effects(of_layers, dict.fromkeys(of_layers, np.arange(30)), width, name)
    return cells


@pytest.fixture(scope="module")
def drawn():
    cells = cells_of()
    return cells, ranked(cells)


def tables_of(hooked, operator, draws, none=""):
    """The ranks; and for each run on a cell's prompts its sets, its intervention and its rows."""
    ranks, values = ranked(cells_of(hooked.started.run.width, none)), np.ones(hooked.masks[0].shape)
    matched_by = {name: {"variance": values, "effect": values} for name in OPERATORS}
    cell, prompts = ("code", operator), pd.DataFrame({"index": range(len(hooked.tokens)), "a": 1, "b": 2})
    runs = compute.run_cell(hooked.started, ranks, cell, [5], matched_by, hooked.means, Draws(0, draws, 0))
    return ranks, [(*one[:2], compute.dose_table(hooked.started, prompts, cell, iter([one]))) for one in runs]


@pytest.mark.parametrize("hooked", ["llama"], indirect=True)
def test_rows_of_knockout_and_of_what_is_kept_alone_equal_hooks(hooked):
    ranks, found = tables_of(hooked, "sum", 2)
    halves, found = (
        [one for one in found if ("means" in one[0][0].label["neurons"]) == by] for by in (True, False)
    )
    (_, out, _), (alone, only, _), (own, past, direct), *_, (control, _, scaled) = found
    assert (out, only, past) == ("knockout", "keep_only", "direct")
    nobody = np.zeros_like(hooked.masks[0])
    means = [hooked.plain, hooked.plain, *hooked.halves, *hooked.halves]
    assert [one[1] for one in halves] == [out, out, only, only]
    for plain, (sets, how, rows) in zip(means, [*found[:2], *halves], strict=True):
        plain = plain[:, None].expand(-1, hooked.tokens.shape[1], -1)
        masks = [({**one.label, "intervention": how}, INTERVENED[how](one.members)) for one in sets]
        masks = [({"neurons": "none", "intervention": "good"}, nobody), *masks]
        oracles.check_rows(rows, masks, hooked.bridge, hooked.tokens, hooked.answers, FIRST, plain, True)
    best, size = ranks.best(5, "code", "sum"), len(hooked.tokens)
    masks = np.array(equal_norm_masks(ranks, best, 5, "code", "sum", Draws(0, 2, 0)))
    nowhere = np.empty((0, len(best), hooked.started.run.model.config.d_model))
    for rows, wanted in (
        (direct, compute.direct(hooked.started, np.array([one.members for one in own]), hooked.means)),
        (scaled, compute.of_equal_norm(hooked.started, best, masks, nowhere, hooked.means)),
    ):
        values = wanted.probability.ravel()
        np.testing.assert_allclose(rows["probability"][size:][: len(values)], values, rtol=1e-6)
    names = [one.label["neurons"] for one in control]
    assert names == 2 * ["equal_norm_of_own_best"] + 2 * ["random_direction_of_own_best"]
    kept = {(one.label["neurons"], one.label["operator"]) for one in alone if "half" not in one.label["neurons"]}
    best = {(f"best_in_{name}", "sum") for name in FORMATS} | {("circuit", "sum")}
    matched = {(f"{kind}_of_own_best", "sum") for kind in ("random_variance", "random_effect")}
    assert kept == best | matched | {("best_in_symbolic", "difference"), ("best_in_word", "difference")}
    assert {(one.label["neurons"], one.label["operator"]) for one in own} == best


@pytest.mark.parametrize("hooked", ["llama"], indirect=True)
def test_an_operator_without_neurons_and_no_draws_leave_sets_out(hooked):
    _, found = tables_of(hooked, "difference", 2, none="difference")
    sets = [one.label for some, *_ in found for one in some]
    assert {one["neurons"] for one in sets if one["operator"] == "difference"} == {"all_late"}
    assert {"circuit", "best_in_word"} < {one["neurons"] for one in sets}
    _, found = tables_of(hooked, "sum", 0)
    assert not any(one.label["neurons"].startswith(("random", "equal_norm")) for some, *_ in found for one in some)


def test_sets_are_the_best_by_mean_effects(drawn):
    cells, ranks = drawn
    sets = list(ranked_sets(ranks, 5, "code", "sum"))
    names = [(one.label["operator"], one.label["neurons"]) for one in sets]
    best = {key: np.stack([cell.means(layer) for layer in cell.candidates]) for key, cell in cells.items()}
    top = {
        key: np.argsort(np.argsort(-np.nan_to_num(own, nan=-9), axis=1), axis=1) < 5 for key, own in best.items()
    }
    whole = {name: one.members for name, one in zip(names, sets, strict=True)}
    for operator in OPERATORS:
        shared = top["symbolic", operator] & top["code", operator] & top["word", operator]
        np.testing.assert_array_equal(whole[operator, "circuit"], shared)
    expected = {("sum", f"best_in_{name}") for name in FORMATS}
    expected |= {("difference", f"best_in_{name}") for name in ("symbolic", "word")}
    assert {name for name in names if name[1].startswith("best_in_")} == expected
    for operator, name in expected:
        np.testing.assert_array_equal(whole[operator, name], top[name.removeprefix("best_in_"), operator])
    assert len(names) == 3 * (2 + 5)
    assert len(set(names)) == len(names)


def test_controls_have_as_many_neurons_in_each_layer_and_parts_are_parts(drawn):
    _, ranks = drawn
    draws, best = Draws(0, 3, 0), ranks.best(5, "code", "sum")
    shared = ranks.shared(5, "sum")
    assert 0 < shared.sum() < best.sum()
    parts = {}
    for one in parts_of_best(ranks, 5, "code", "sum", draws):
        parts.setdefault(one.label["neurons"], []).append(one.members)
    for part in parts["random_of_own_best"]:
        assert not (part & ~best).any()
        np.testing.assert_array_equal(part.sum(1), shared.sum(1))
    np.testing.assert_array_equal(parts["own_best_not_shared"][0], best & ~shared)
    layers = np.array([parts["own_best_in_layers_2_to_2"][0], parts["own_best_in_layers_3_to_3"][0]])
    np.testing.assert_array_equal(layers.any(0), best)
    assert not layers.all(0).any()
    assert parts["all_late"][0].all()
    for mask in equal_norm_masks(ranks, best, 5, "code", "sum", draws):
        assert not (mask & best).any()
        assert not mask[:, 30:].any()
        np.testing.assert_array_equal(mask.sum(1), best.sum(1))
    assert not equal_norm_masks(ranks, ranks.best(16, "code", "sum"), 16, "code", "sum", draws)
    along = compute._directions((2, 7), draws, "code")
    np.testing.assert_allclose(np.linalg.norm(along, axis=-1), np.ones((3, 2)))
    assert not (along[0] == along[1]).any()
    values = {"variance": np.random.default_rng(2).random((2, WIDTH)), "effect": np.ones((2, WIDTH))}
    matched = [*best_controls(ranks, 5, "code", "sum", values, draws)]
    matched += circuit_controls(ranks, 5, dict.fromkeys(OPERATORS, values), draws)
    for one in matched:
        of_best = one.label["neurons"].endswith("_of_own_best")
        members = best if of_best else ranks.shared(5, one.label["operator"])
        np.testing.assert_array_equal(one.members.sum(1), members.sum(1))
        assert not (one.members & members).any()
