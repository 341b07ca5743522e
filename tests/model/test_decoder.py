"""The forward pass against Hugging Face's, and its hook points against TransformerLens's."""

import oracles
import pytest
import torch

from conftest import FAMILIES
from form_invariance.model import decoder
from form_invariance.model import loading as models


def random_tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_hugging_face(family_folders, family):
    from transformers import AutoModelForCausalLM

    folder = family_folders[family]
    # Only Hugging Face's plain attention caps its scores.
    theirs = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    ours = models.load(folder)
    tokens = random_tokens(ours.config.vocabulary, 3, 21)
    with torch.no_grad():
        expected = theirs(tokens).logits
    got = decoder.logits(ours, decoder.run_layers(ours, decoder.embed(ours, tokens)))
    assert expected.std() > 0.5
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=1e-5)
    last = decoder.logits(ours, decoder.run_layers(ours, decoder.embed(ours, tokens), last_only=True))
    torch.testing.assert_close(last, expected[:, -1:], atol=2e-5, rtol=1e-5)


def test_packaged_models_equal_hugging_face(packaged):
    from transformers import AutoModelForCausalLM

    for model, tokenizer, folder in packaged.values():
        theirs = AutoModelForCausalLM.from_pretrained(folder)
        tokens = torch.from_numpy(tokenizer.encode_batch(["226+68=", "999-12="]))
        with torch.no_grad():
            expected = theirs(tokens).logits
        got = decoder.logits(model, decoder.run_layers(model, decoder.embed(model, tokens)))
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-5)


def test_hook_points_are_transformer_lens_ones(tiny, tiny_folder):
    model, _ = tiny
    tokens = random_tokens(model.config.vocabulary, 2, 9)
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
