"""Every architecture: logits, patching and ablation against hooks on Hugging Face's whole forward pass."""

import numpy as np
import oracles
import pytest
import torch
from ablations import at_last_token
from hugging_face import compare, reading, rewritten
from safetensors.torch import load_file

from conftest import FAMILIES
from form_invariance.errors import UserError
from form_invariance.experiment import ablation
from form_invariance.experiment.means import MeanCache
from form_invariance.model import decoder
from form_invariance.model import loading as models
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.patching.compute import patch_neurons
from form_invariance.workflow import job_sizes

FIRST = 2
DOWN = {
    "gpt-neox": "gpt_neox.layers.{}.mlp.dense_4h_to_h",
    "gpt-neox-sequential": "gpt_neox.layers.{}.mlp.dense_4h_to_h",
    "gpt2": "transformer.h.{}.mlp.c_proj",
}
"""What reads the neurons, where it is not named as in Llama."""


class HuggingFace:
    """Hugging Face's model with hooks on what its down-projections read."""

    def __init__(self, folder, family: str) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        down = DOWN.get(family, "model.layers.{}.mlp.down_proj")
        layers = range(self.model.config.num_hidden_layers)
        self.readers = [self.model.get_submodule(down.format(layer)) for layer in layers]

    @torch.no_grad()
    def run(self, tokens, hooks=()):
        """Last-token logits (B, V) with hooks (layer, function of the neurons (B, T, m))."""
        with reading(*((self.readers[layer], change) for layer, change in hooks)):
            return self.model(tokens).logits[:, -1]

    def neurons(self, tokens):
        """All neurons' activations, (layers, B, T, m)."""
        seen = {}

        def keep(layer):
            return lambda post: seen.setdefault(layer, post.clone())

        self.run(tokens, [(layer, keep(layer)) for layer in range(len(self.readers))])
        return torch.stack([seen[layer] for layer in range(len(self.readers))])


@pytest.fixture(params=FAMILIES)
def pair(request, family_folders):
    folder = family_folders[request.param]
    return models.load(folder), HuggingFace(folder, request.param)


def inputs(model, length=13, prompts=4):
    generator = torch.Generator().manual_seed(3)
    clean, corrupt = torch.randint(0, model.config.vocabulary, (2, prompts, length), generator=generator)
    answers = torch.randperm(model.config.vocabulary, generator=generator)[: 2 * prompts].view(prompts, 2)
    return clean, corrupt, answers


def test_logits(pair):
    model, theirs = pair
    tokens = torch.randint(0, model.config.vocabulary, (3, 21), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs.model(tokens).logits
    assert expected.std() > 0.5
    for last in (False, True):
        got = decoder.logits(model, decoder.run_layers(model, decoder.embed(model, tokens), last_only=last))
        torch.testing.assert_close(got, expected[:, -1:] if last else expected, atol=2e-5, rtol=1e-5)


def test_hook_points_are_transformer_lens_ones(tiny, tiny_folder):
    model, _ = tiny
    tokens = inputs(model, length=9, prompts=2)[0]
    seen = {}
    names = {"hook_post": "mlp.hook_post", "hook_z": "attn.hook_z"}

    def keep(key):
        def hook(activation, hook):
            seen[key] = activation.detach().clone()
            return activation

        return hook

    bridge = oracles.bridge(tiny_folder)
    hooks = [(f"blocks.{layer}.{name}", keep((layer, kind))) for layer in range(4) for kind, name in names.items()]
    oracles.last_logits(bridge, tokens, hooks)
    ours = {}

    def on(kind):
        def hook(layer, activation):
            ours[layer, kind] = activation
            return activation

        return hook

    decoder.run_layers(model, decoder.embed(model, tokens), on_neurons=on("hook_post"), on_heads=on("hook_z"))
    assert set(ours) == set(seen)
    for key, value in ours.items():
        torch.testing.assert_close(value.reshape(seen[key].shape), seen[key], atol=1e-5, rtol=1e-4)


def test_single_neuron_patches(pair):
    model, theirs = pair
    clean, corrupt, answers = inputs(model)
    given = theirs.neurons(corrupt)[:, :, -1]
    ours = last_token_neurons(model, corrupt, FIRST)
    torch.testing.assert_close(ours, given[FIRST:], atol=2e-5, rtol=1e-4)
    cache, base = build_cache(model, clean, FIRST), theirs.run(clean)
    candidates = torch.tensor([0, 17, 41, 79])
    for layer in range(FIRST, model.config.n_layers):
        got = patch_neurons(model, cache, layer, candidates, given[layer][:, candidates], answers)[0]
        for column, neuron in enumerate(candidates.tolist()):

            def change(post, layer=layer, neuron=neuron):
                post = post.clone()
                post[:, -1, neuron] = given[layer][:, neuron]
                return post

            expected = oracles.indirect_effect(base, theirs.run(clean, [(layer, change)]), answers)
            np.testing.assert_allclose(got[:, column], expected, atol=2e-5, rtol=2e-4)
        assert got.abs().max() > 1e-3


@pytest.mark.parametrize("positions", ["all", "last"])
def test_ablation(pair, positions):
    model, theirs = pair
    clean, _, answers = inputs(model)
    generator = torch.Generator().manual_seed(5)
    tokens, c = clean.shape[1], model.config
    means = MeanCache(
        neurons=[torch.randn(tokens, c.d_mlp, generator=generator) for _ in range(c.n_layers)],
        heads=[torch.zeros(tokens, c.n_heads, c.d_head) for _ in range(c.n_layers)],
        variance=[torch.ones(c.d_mlp) for _ in range(c.n_layers)],
        count=torch.ones(tokens),
    )
    # The first two leave fewer than half of the neurons of every layer, the others more.
    masks = torch.rand(2, c.n_layers - FIRST, c.d_mlp, generator=generator) < 0.7
    masks = torch.cat([masks, ~masks])
    run = next(ablation.start_runs(model, clean, answers[:, 0], FIRST))
    with torch.no_grad():
        if positions == "all":
            got = ablation.ablate_all_positions(model, run, masks, means, True, True)
        else:
            got = at_last_token(model, run, masks, means, True)
    where = slice(1, None) if positions == "all" else slice(-1, None)
    for run, mask in enumerate(masks):
        hooks = [
            (
                layer,
                lambda post, layer=layer, mask=mask: oracles.replace_neurons(
                    mask[layer - FIRST], means.neurons[layer].flip(0), where
                )(post, None),
            )
            for layer in range(FIRST, c.n_layers)
        ]
        z = theirs.run(clean, hooks)
        expected = oracles.normalized_logit(z, answers[:, 0], True)
        np.testing.assert_allclose(got.normalized_logit[run], expected, atol=1e-4, rtol=1e-3)
        assert got.predicted[run].tolist() == z.argmax(-1).tolist()


def test_what_cannot_be_read_is_named(family_folders, tmp_path):
    def said(family, name, **changes):
        return compare(rewritten(family_folders[family], tmp_path / name, lambda config: {**config, **changes}))

    assert "model.layers.0.mlp (LlamaMLP) has the activation ReLU" in said("llama", "a", hidden_act="relu")
    scaled = said("gpt2", "b", scale_attn_by_inverse_layer_idx=True)
    assert "transformer.h.1.attn (GPT2Attention) has attention_scale" in scaled
    yarn = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
    assert "has rope scaling 'yarn' with attention_scaling 1.13" in said("llama", "c", rope_parameters=yarn)
    assert "cannot be read by transformers" in said("llama", "d", model_type="nothing-known")
    assert "weight 'model.layers.0.self_attn.k_proj.weight' has shape" in said("llama", "e", num_key_value_heads=3)


@pytest.mark.parametrize("family", FAMILIES)
def test_size_by_config_is_the_size_of_the_weights(family_folders, family):
    """Biases and norms apart, also where config.json does not say that the embeddings are one."""
    stored = load_file(family_folders[family] / "model.safetensors")
    matrices = {name: tensor.numel() for name, tensor in stored.items() if tensor.dim() == 2}
    matrices.pop("transformer.wpe.weight", None)
    assert job_sizes.parameters(str(family_folders[family])) == sum(matrices.values())


def test_a_prompt_longer_than_the_window_is_refused(family_folders):
    for family in ("gemma2", "gpt2"):
        model = models.load(family_folders[family])
        with pytest.raises(UserError, match="65 tokens, but this model attends to 64 at most"):
            decoder.embed(model, torch.zeros(1, 65, dtype=torch.int64))
