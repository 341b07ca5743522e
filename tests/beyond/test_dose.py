"""Knockouts along the dose: changes of equal norm and direct ones against hooks, sets by brute force."""

from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.dose import compute
from form_invariance.beyond.dose.neuron_sets import best_controls, equal_norm_masks, parts_of_best, ranked_sets
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.intervene import start
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.ranked_sets import circuit_controls, ranked
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.tokenizers import load_tokenizer

FIRST, LAYERS, NAME = 2, 4, "symbolic"


@pytest.fixture(scope="module", params=["llama", "gpt2", "gpt-neox", "gemma2"])
def hooked(request, family_folders):
    """A small model, its prompts, its means by hooks, and the model in TransformerLens."""
    folder = family_folders[request.param]
    run = Run(loading.load(folder), load_tokenizer(folder), FIRST)
    tokens, answers, means = prepare(run.model, run.tokenizer, NAME)
    plain = plain_means(folder, run.tokenizer, CACHE_PROMPTS[NAME], LAYERS)[FIRST:, -1]
    masks = np.random.default_rng(0).random((3, LAYERS - FIRST, run.width)) < 0.3
    return SimpleNamespace(
        bridge=oracles.bridge(folder),
        tokens=tokens,
        answers=answers,
        means=means,
        plain=plain,
        masks=masks,
        started=start(run, tokens, answers, center=True),
        family=request.param,
    )


def check(found, z, answers):
    expected = oracles.readout(z, answers, center=True)
    np.testing.assert_allclose(found.probability, expected["probability"], atol=2e-6)
    np.testing.assert_allclose(found.margin, expected["margin"], atol=1e-4)
    assert found.predicted.tolist() == z.argmax(-1).tolist()


def at_last_token(value):
    """A hook that puts a function of the last token's activation in its place."""

    def hook(activation, hook):
        activation = activation.clone()
        activation[:, -1] = value(activation[:, -1])
        return activation

    return hook


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
    """Effects of six cells, of which each layer's neurons 0 to 29 are candidates; those of `none` are negative."""
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
    """Effects, and ranks by them."""
    cells = cells_of()
    return cells, ranked(cells)


def runs_of(hooked, operator, draws, none=""):
    """What is done on the prompts of a cell, and the rows of its table."""
    ranks, values = ranked(cells_of(hooked.started.run.width, none)), np.ones(hooked.masks[0].shape)
    matched_by = {name: {"variance": values, "effect": values} for name in OPERATORS}
    cell, prompts = ("code", operator), pd.DataFrame({"index": range(len(hooked.tokens)), "a": 1, "b": 2})
    runs = [*compute.run_cell(hooked.started, ranks, cell, [5], matched_by, hooked.means, Draws(0, draws, 0))]
    return ranks, runs, compute.dose_table(hooked.started, prompts, cell, iter(runs))


@pytest.mark.parametrize("hooked", ["llama"], indirect=True)
def test_rows_of_knockout_and_of_what_is_kept_alone_equal_hooks(hooked):
    ranks, runs, table = runs_of(hooked, "sum", 2)
    plain = torch.stack([*hooked.plain])[:, None].expand(-1, hooked.tokens.shape[1], -1)
    blocks = iter(table.groupby(np.arange(len(table)) // len(hooked.tokens)))
    sets = [({"neurons": "none", "k": 0}, np.zeros_like(hooked.masks[0]), "good")]
    sets += [(one.label, one.members, how) for some, how, _ in runs for one in some]
    best, tried = ranks.best(5, "code", "sum"), set()
    scaled = compute.of_equal_norm(
        *(hooked.started, best, np.array(equal_norm_masks(ranks, best, 5, "code", "sum", Draws(0, 2, 0)))),
        *(np.empty((0, *best.shape[:1], hooked.started.run.model.config.d_model)), hooked.means),
    )
    for label, members, how in sets:
        _, rows = next(blocks)
        assert (rows[[*label, "intervention"]] == [*label.values(), how]).all(axis=None)
        kind = label["neurons"]
        if how == "direct":
            found = compute.direct(hooked.started, members[None], hooked.means)[0]
            np.testing.assert_allclose(rows["probability"], found.probability, rtol=1e-6)
        elif kind == "equal_norm_of_own_best":
            np.testing.assert_allclose(rows["probability"], scaled[label["seed"]].probability, rtol=1e-6)
        elif "equal_norm" not in kind and "random_direction" not in kind:
            mask = torch.from_numpy(members if how != "keep_only" else ~members)
            z = oracles.ablated(hooked.bridge, hooked.tokens, FIRST, mask, plain, slice(-1, None))
            expected = oracles.readout(z, hooked.answers, center=True)
            np.testing.assert_allclose(rows["probability"], expected["probability"], atol=1e-7)
            np.testing.assert_allclose(rows["margin"], expected["margin"], atol=1e-4)
            assert rows["correct"].tolist() == expected["accuracy"].tolist()
        tried.add((how, kind, label.get("operator")))
    assert next(blocks, None) is None
    kept = {(kind, of) for how, kind, of in tried if how == "keep_only" and "half" not in kind}
    matched = {(f"{kind}_of_own_best", "sum") for kind in ("random_variance", "random_effect")}
    others = {("best_in_symbolic", "difference"), ("best_in_word", "difference"), ("circuit", "sum")}
    assert kept == matched | others | {(f"best_in_{name}", "sum") for name in FORMATS}
    direct = {(kind, of) for how, kind, of in tried if how == "direct"}
    assert direct == {("circuit", "sum"), *((f"best_in_{name}", "sum") for name in FORMATS)}


@pytest.mark.parametrize("hooked", ["llama"], indirect=True)
def test_an_operator_without_neurons_and_no_draws_leave_sets_out(hooked):
    *_, table = runs_of(hooked, "difference", 2, none="difference")
    own = table[(table["operator"] == "difference") & (table["k"] == 5)]
    assert set(own["neurons"]) == {"all_late"}
    assert {"circuit", "best_in_word"} < set(table["neurons"])
    *_, table = runs_of(hooked, "sum", 0)
    assert not table["neurons"].str.contains("random|equal_norm").any()


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
    values = {
        name: {"variance": np.random.default_rng(2).random((2, WIDTH)), "effect": np.ones((2, WIDTH))}
        for name in OPERATORS
    }
    matched = [
        *best_controls(ranks, 5, "code", "sum", values["sum"], draws),
        *circuit_controls(ranks, 5, values, draws),
    ]
    for one in matched:
        of_best = one.label["neurons"].endswith("_of_own_best")
        members = best if of_best else ranks.shared(5, one.label["operator"])
        np.testing.assert_array_equal(one.members.sum(1), members.sum(1))
        assert not (one.members & members).any()
