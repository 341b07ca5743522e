"""The benchmark's counts of operations against torch's counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmark.measure import pass_operations, replay_operations
from benchmark.random_models import Shape, write_random_model
from form_invariance.model.decoder import embed, logits, run_layers
from form_invariance.model.loading import load
from form_invariance.model.replay import build_cache
from form_invariance.stages.patching.compute import patch_neurons

pytestmark = pytest.mark.slow

TINY = Shape(d_model=64, n_layers=4, d_mlp=96, n_heads=4, n_key_value_heads=2, vocabulary=1536)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    write_random_model(folder := tmp_path_factory.mktemp("random"), TINY)
    return load(folder)


def counted(run):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("tokens", [5, 26])
def test_operations_of_a_pass_are_those_that_torch_counts(model, tokens):
    prompt = torch.arange(tokens)[None]
    found = counted(lambda: logits(model, run_layers(model, embed(model, prompt))[:, -1]))
    c, whole = model.config, pass_operations(model.config, tokens)
    scores = c.n_layers * 4 * c.n_heads * c.d_head * tokens**2
    # Torch's counter does not know the CPU's fused attention.
    assert found in (whole, whole - scores)


@pytest.mark.parametrize("layer", [2, 3])
def test_operations_of_a_patch_are_those_that_torch_counts(model, layer):
    prompt, n = torch.arange(9)[None], 64
    cache = build_cache(model, prompt, 2)
    given, answers = torch.zeros(1, n), torch.tensor([[11, 12]])
    found = counted(lambda: patch_neurons(model, cache, layer, torch.arange(n), given, answers))
    # The clean last token is replayed with the patched ones.
    assert found == pytest.approx((n + 1) * replay_operations(model.config, 3 - layer, 9), rel=0.02)
