"""Every architecture: logits and patches against hooks on Hugging Face's whole forward pass."""

import numpy as np
import oracles
import pytest
import torch
from hugging_face import HuggingFace, set_at_the_last_token
from safetensors.torch import load_file

from conftest import FAMILIES
from form_invariance.errors import UserError
from form_invariance.model import decoder
from form_invariance.model import loading as models
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.patching.compute import patch_neurons
from form_invariance.workflow import job_sizes

FIRST = 2
NEOX = "gpt_neox.layers.{}.mlp.dense_4h_to_h"
DOWN = {"gpt-neox": [NEOX], "gpt-neox-sequential": [NEOX], "gpt2": ["transformer.h.{}.mlp.c_proj"]}
"""What reads the neurons, where it is not named as in Llama."""


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_logits_and_single_neuron_patches(family_folders, family):
    folder = family_folders[family]
    model, theirs = models.load(folder), HuggingFace(folder, *DOWN.get(family, ()))
    generator = torch.Generator().manual_seed(3)
    clean, corrupt = torch.randint(0, model.config.vocabulary, (2, 4, 13), generator=generator)
    answers = torch.randperm(model.config.vocabulary, generator=generator)[:8].view(4, 2)
    cache, base = build_cache(model, clean, FIRST), theirs.logits(clean)
    assert base.std() > 0.5
    for last in (False, True):
        z = decoder.logits(model, decoder.run_layers(model, decoder.embed(model, clean), last_only=last))
        torch.testing.assert_close(z[:, -1], base, atol=2e-5, rtol=1e-5)
    given = theirs.neurons(corrupt)[:, :, -1]
    ours = last_token_neurons(model, corrupt, FIRST)
    torch.testing.assert_close(ours, given[FIRST:], atol=2e-5, rtol=1e-4)
    candidates = torch.tensor([0, 17, 41, 79])
    for layer in range(FIRST, model.config.n_layers):
        got = patch_neurons(model, cache, layer, candidates, given[layer][:, candidates], answers)[0]
        for column, neuron in enumerate(candidates.tolist()):
            patched = theirs.logits(clean, set_at_the_last_token(layer, neuron, given[layer][:, neuron]))
            expected = oracles.indirect_effect(base, patched, answers)
            np.testing.assert_allclose(got[:, column], expected, atol=2e-5, rtol=2e-4)
        assert got.abs().max() > 1e-3


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
