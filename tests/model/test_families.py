"""Every architecture: logits and neurons against hooks on Hugging Face's whole forward pass."""

import pytest
import torch
from hugging_face import HuggingFace
from safetensors.torch import load_file

from conftest import FAMILIES
from form_invariance.errors import UserError
from form_invariance.model import decoder
from form_invariance.model import loading as models
from form_invariance.model.replay import last_token_neurons
from form_invariance.workflow import job_sizes

FIRST = 2
NEOX = "gpt_neox.layers.{}.mlp.dense_4h_to_h"
DOWN = {"gpt-neox": [NEOX], "gpt-neox-sequential": [NEOX], "gpt2": ["transformer.h.{}.mlp.c_proj"]}
"""What reads the neurons, where it is not named as in Llama."""


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_logits_and_neurons_equal_hugging_faces(family_folders, family):
    folder = family_folders[family]
    model, theirs = models.load(folder), HuggingFace(folder, *DOWN.get(family, ()))
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, model.config.vocabulary, (4, 13), generator=generator)
    base = theirs.logits(tokens)
    assert base.std() > 0.5
    for last in (False, True):
        z = decoder.logits(model, decoder.run_layers(model, decoder.embed(model, tokens), last_only=last))
        torch.testing.assert_close(z[:, -1], base, atol=2e-5, rtol=1e-5)
    neurons = theirs.neurons(tokens)[FIRST:, :, -1]
    torch.testing.assert_close(last_token_neurons(model, tokens, FIRST), neurons, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_size_by_config_is_the_size_of_the_weights(family_folders, family):
    """Biases and norms do not count. config.json may not say that the embeddings are tied."""
    stored = load_file(family_folders[family] / "model.safetensors")
    matrices = {name: tensor.numel() for name, tensor in stored.items() if tensor.dim() == 2}
    matrices.pop("transformer.wpe.weight", None)
    assert job_sizes.parameters({"source": str(family_folders[family])}) == sum(matrices.values())


def test_a_prompt_longer_than_the_window_is_refused(family_folders):
    for family in ("gemma2", "gpt2"):
        model = models.load(family_folders[family])
        with pytest.raises(UserError, match="65 tokens, but this model takes 64 at most"):
            decoder.embed(model, torch.zeros(1, 65, dtype=torch.int64))
