"""The fast engine against TransformerLens: they agree on every family, and each check finds a deliberate error."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import FAMILIES, at_night
from form_invariance.beyond.engine_check import compute
from form_invariance.beyond.engine_check.hooked import hooked_values
from form_invariance.beyond.engine_check.sample import NO_LAYER, CheckedPrompts, build_samples, choose_neurons
from form_invariance.beyond.engine_check.transformer_lens_bridge import boot
from form_invariance.errors import UserError
from form_invariance.experiment import ablation
from form_invariance.experiment.means import MeanCache
from form_invariance.model import decoder
from form_invariance.model import loading as models
from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.attribution import compute as attribution
from form_invariance.stages.dataset.prompts import TrainPrompts

FIRST, CELL = 2, ("code", "addition")


def ranked(effects):
    """An attribution table of effects (late layers, m)."""
    layers, width = effects.shape
    rank = (-effects).argsort(1).argsort(1) + 1
    layer = np.repeat(np.arange(FIRST, FIRST + layers), width)
    return pd.DataFrame({"layer": layer, "neuron": np.tile(np.arange(width), layers), "rank": rank.flatten()})


def sample_of(model, prompts=3, length=13):
    """Random prompts, and random means that differ from position to position."""
    c, generator = model.config, torch.Generator().manual_seed(1)

    def tokens(*shape):
        return torch.randint(0, c.vocabulary, shape, generator=generator)

    means = [0.3 * torch.randn(length - 1, c.d_mlp, generator=generator) for _ in range(c.n_layers)]
    clean, partners = tokens(prompts, length), [tokens(1, length + row) for row in range(prompts)]
    answers = torch.randperm(c.vocabulary, generator=generator)[: 2 * prompts].view(prompts, 2)
    corrupt = torch.cat([last_token_neurons(model, partner, FIRST) for partner in partners], dim=1)
    effects = attribution.attribute(model, clean, corrupt, answers, FIRST)
    neurons, neuron_set = choose_neurons(ranked(effects.mean(1)), model.device)
    means = MeanCache([mean.to(model.dtype) for mean in means], [], [], torch.ones(length - 1))
    given = {"tokens": clean, "answers": answers, "partners": partners, "donors": tokens(prompts, length - 2)}
    late = {"layers": range(FIRST, c.n_layers), "neurons": neurons, "neuron_set": neuron_set}
    return CheckedPrompts(**given, **late, means=means, bos=True)


IN_BFLOAT16 = at_night([(name, "bfloat16") for name in ("gemma2", *sorted({*FAMILIES} - {"gemma2"}))])


@pytest.mark.parametrize(("family", "dtype"), [*((name, "float32") for name in FAMILIES), *IN_BFLOAT16])
def test_every_family_agrees(family_folders, family, dtype):
    folder, kind = family_folders[family], getattr(torch, dtype)
    model = models.load(folder, dtype=kind)
    sample = sample_of(model)
    bridge = boot(folder, kind)
    assert {one.dtype for one in bridge.parameters()} == {kind}
    fast, slow = compute.fast_values(model, sample), hooked_values(bridge, sample)
    assert fast.keys() == slow.keys()
    table = compute.compare({CELL: fast}, {CELL: slow}, dtype)
    compute.require_exact(table, family, dtype)
    assert set(table["check"]) == set(compute.CHECKS)
    by_layer = table[table["check"].isin(["patch", "no_op", "attribution"])]
    assert (by_layer.groupby("check")["layer"].agg(list) == [[FIRST, FIRST + 1]] * 3).all()
    # No compared value is nearly zero, except for the patches that change nothing.
    scale = table.groupby("check")["scale"].min()
    assert (scale.drop("no_op") > 1e-3).all()
    # float32 agrees much better than its tolerance; bfloat16 does not keep that of float32.
    exact = table["error"].max() < compute.TOLERANCE["float32"] / 10
    assert exact == (dtype == "float32")


def test_the_cells_divide_the_layers(tiny):
    """Every late layer is patched in one cell, even if there are more cells than layers."""
    model, tokenizer = tiny
    table = ranked(torch.rand(3, model.config.d_mlp, generator=torch.Generator().manual_seed(0)))
    prompts = TrainPrompts(torch.tensor([[5, 6, 7]]), [["1+2="]], torch.tensor([[[5, 6]]]))
    for count in (1, 2, 4):
        cells = [(f"format {n}", "addition") for n in range(count)]
        means = {name: MeanCache([], [], [], torch.ones(1)) for name, _ in cells}
        samples = build_samples(dict.fromkeys(cells, prompts), dict.fromkeys(cells, table), means, tokenizer, 1)
        patched = [layer for cell in cells for layer in samples[cell].neurons]
        assert sorted(patched) == list(samples[cells[0]].layers) == [FIRST, FIRST + 1, FIRST + 2]


def not_a_number(right, *given, **more):
    return SimpleNamespace(probability=torch.nan * right(*given, **more).probability)


ERRORS = [  # the checks that find it, the function, and its wrong version
    ({"logits"}, compute, "logits", lambda right, model, x: decoder.unembed(model, x, model.unembedding)),
    ({"patch", "no_op"}, compute, "patch_neurons", lambda right, *own: right(*own[:3], own[3] - 1, *own[4:])),
    ({"attribution"}, attribution, "effect_gradient", lambda right, *own: 1.01 * right(*own)),
    ({"keep_only"}, ablation, "aligned", lambda right, *own: right(*own).roll(1, 0)),  # of the position before
    ({"transfer"}, compute, "read_replaced", not_a_number),
    ({"transfer"}, compute, "read_replaced", lambda right, *own, **how: right(*own[:4], own[4].roll(1, 1), **how)),
]


@pytest.fixture(scope="module")
def reference(tiny, tiny_folder):
    sample = sample_of(tiny[0])
    return sample, hooked_values(boot(tiny_folder), sample)


@pytest.mark.parametrize(("found", "module", "name", "wrong"), ERRORS)
def test_each_check_finds_an_error_of_its_own(tiny, reference, monkeypatch, found, module, name, wrong):
    sample, slow = reference
    monkeypatch.setattr(module, name, partial(wrong, getattr(module, name)))
    table = compute.compare({CELL: compute.fast_values(tiny[0], sample)}, {CELL: slow}, "float32")
    assert set(table.loc[~table["within"], "check"]) == found
    with pytest.raises(UserError) as raised:
        compute.require_exact(table, "tiny", "float32")
    first = next(check for check in compute.CHECKS if check in found)
    worst = table[table["check"] == first].sort_values("error").iloc[-1]
    place = "" if worst["layer"] == NO_LAYER else f"in layer {worst['layer']} "
    for word in ("model tiny", f"({first}, code addition)", f"{worst['difference']:.1e}", place):
        assert word in str(raised.value)


def test_distances_by_hand():
    fast, slow = torch.tensor([1.0, -4.5]).double(), torch.tensor([1.5, -4.0]).double()
    assert compute.distance("logits", fast, slow) == (0.5, 4, 0.125)
    assert compute.distance("attribution", fast, slow) == (0.5, 4, 0.125)
    assert compute.distance("attribution", fast, slow, largest=8) == (0.5, 4, 0.0625)
    assert compute.distance("patch", fast, slow) == (0.5, 4, 0.2)
    assert compute.distance("no_op", fast, slow) == (4.5, 0, 4.5)
    assert compute.distance("no_op", slow - slow, fast) == (4.5, 0, 4.5)
    assert compute.distance("attribution", slow - slow, slow - slow) == (0, 0, 0)
    by_layer = {("logits", -1): slow, ("attribution", 2): slow / 8, ("attribution", 3): 2 * slow}
    here = {key: values * fast / slow for key, values in by_layer.items()}
    table = compute.compare({CELL: here}, {CELL: by_layer}, "float32")
    assert table["error"].tolist() == [0.125, 0.125 / 16, 0.125]


def test_neurons_by_hand():
    ranks = [3, 1, 2, 6, 5, 4, *range(1, 7)]
    table = pd.DataFrame({"layer": [4] * 6 + [5] * 6, "neuron": [*range(6)] * 2, "rank": ranks})
    neurons, chosen = choose_neurons(table, torch.device("cpu"))
    assert {layer: own.tolist() for layer, own in neurons.items()} == {4: [1, 3], 5: [0, 5]}
    assert chosen.tolist() == [[True] * 3 + [False] * 3] * 2
    narrow, _ = choose_neurons(table[table["neuron"] == 1].assign(rank=1), torch.device("cpu"))
    assert {layer: own.tolist() for layer, own in narrow.items()} == {4: [1], 5: [1]}
