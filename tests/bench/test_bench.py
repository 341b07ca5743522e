"""The benchmark: its counts of operations against torch's counter, and the command."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmark import rivals
from benchmark.__main__ import main
from benchmark.measure import pass_operations, replay_operations
from benchmark.random_models import Shape, write_random_model
from form_invariance.model.decoder import embed, logits, run_layers
from form_invariance.model.loading import load
from form_invariance.model.replay import build_cache
from form_invariance.stages.patching.compute import patch_neurons

pytestmark = pytest.mark.slow

TINY = Shape(d_model=64, n_layers=4, d_mlp=96, n_heads=4, n_key_value_heads=2, vocabulary=1536)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("random")
    write_random_model(path, TINY)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


def counted(run):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("tokens", [5, 26])
def test_operations_of_a_pass(model, tokens):
    prompt = torch.arange(tokens)[None]
    found = counted(lambda: logits(model, run_layers(model, embed(model, prompt))[:, -1]))
    c, whole = model.config, pass_operations(model.config, tokens)
    scores = c.n_layers * 4 * c.n_heads * c.d_head * tokens**2
    # Torch's counter does not know the CPU's fused attention.
    assert found in (whole, whole - scores)


@pytest.mark.parametrize("layer", [2, 3])
def test_operations_of_a_patch(model, layer):
    prompt, n = torch.arange(9)[None], 64
    cache = build_cache(model, prompt, 2)
    given, answers = torch.zeros(1, n), torch.tensor([[11, 12]])
    found = counted(lambda: patch_neurons(model, cache, layer, torch.arange(n), given, answers))
    # The clean last token is replayed with the patched ones.
    assert found == pytest.approx((n + 1) * replay_operations(model.config, 3 - layer, 9), rel=0.02)


def test_command(folder, tmp_path, capsys):
    """Replay agrees with every rival, also where the last batch is not full; its speedup is the ratio of times."""
    sizes = ["--candidates", "32", "--hooked", "20", "--prompts", "4", "--repeats", "1", "--lengths", "9"]
    assert main(["--model", str(folder), *sizes, "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("times faster than one hooked pass per neuron") == 1
    assert all((tmp_path / f"bench.{kind}").stat().st_size > 0 for kind in ("png", "svg"))
    table = pd.read_parquet(tmp_path / "bench.parquet")
    assert set(table["suite"]) == {"replay", "stages"}
    assert (table["seconds"] > 0).all()
    table = table[table["suite"] == "replay"]
    assert (table["difference"] < 1e-5).all()
    first, every = (table[table["layer"] == layer].set_index("stage") for layer in (2, -1))
    assert set(first.index) == {"replay", *rivals.load(folder, torch.float32, "cpu")}
    assert every["units"].to_dict() == (2 * first["units"]).to_dict()
    for rows in (first, every):
        each = rows["seconds"] / rows["units"]
        np.testing.assert_allclose(rows["speedup"], each / each["replay"])
