"""Replay against the hooked full forward pass, one neuron a pass, on a model with random weights."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from form_invariance.decoder import Decoder
from form_invariance.patching import indirect_effect, last_token_neurons, patch_neurons
from form_invariance.replay import build_cache


@dataclass(frozen=True)
class Shape:
    """Sizes of the random model: a Llama with untied embeddings."""

    d_model: int = 512
    n_layers: int = 12
    d_mlp: int = 1536
    n_heads: int = 8
    n_key_value_heads: int = 4
    vocabulary: int = 32000


@dataclass(frozen=True)
class Measurement:
    """One prompt length.

    Attributes:
        tokens: prompt length with BOS.
        full: seconds a patched neuron, hooked full forward pass.
        replayed: seconds a patched neuron, replay.
        ratio: full / replayed.
        share: replay's floating-point rate over the machine's matrix-product rate.
        difference: largest difference of the indirect effects of the two.
    """

    tokens: int
    full: float
    replayed: float
    ratio: float
    share: float
    difference: float


def random_model(shape: Shape) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Random weights by their Hugging Face names, and config.json; logits stay within a few units."""
    rng = torch.Generator().manual_seed(0)
    d, m = shape.d_model, shape.d_mlp
    keys = d * shape.n_key_value_heads // shape.n_heads

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=rng) * size[-1] ** -0.5

    weights = {"model.embed_tokens.weight": normal(shape.vocabulary, d), "model.norm.weight": torch.ones(d)}
    weights["lm_head.weight"] = normal(shape.vocabulary, d)
    for layer in range(shape.n_layers):
        at = f"model.layers.{layer}"
        for name, size in (("q", (d, d)), ("k", (keys, d)), ("v", (keys, d)), ("o", (d, d))):
            weights[f"{at}.self_attn.{name}_proj.weight"] = normal(*size)
        for name, size in (("gate", (m, d)), ("up", (m, d)), ("down", (d, m))):
            weights[f"{at}.mlp.{name}_proj.weight"] = normal(*size)
        weights[f"{at}.input_layernorm.weight"] = torch.ones(d)
        weights[f"{at}.post_attention_layernorm.weight"] = torch.ones(d)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": d,
        "intermediate_size": m,
        "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.n_key_value_heads,
        "vocab_size": shape.vocabulary,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    return weights, config


def write_random_model(folder: Path, shape: Shape) -> None:
    """Write a Hugging Face folder with random weights, and a tokenizer of numbers."""
    from form_invariance.embedded.tokenizer import build_tokenizer

    weights, config = random_model(shape)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    build_tokenizer([]).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def _best(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def matmul_rate(rows: int, shape: Shape, repeats: int = 20) -> float:
    """Floating-point operations a second of an fp32 matrix product of the MLP's size."""
    x, w = torch.randn(rows, shape.d_model), torch.randn(shape.d_mlp, shape.d_model)
    return 2 * rows * shape.d_model * shape.d_mlp / _best(lambda: x @ w.T, repeats)


def replay_operations(shape: Shape, layers_above: int, tokens: int) -> int:
    """Floating-point operations of one patched neuron: the layers above it and the unembedding."""
    d, keys = shape.d_model, shape.d_model * shape.n_key_value_heads // shape.n_heads
    layer = 2 * (2 * d * d + 2 * d * keys + 3 * d * shape.d_mlp) + 4 * d * tokens
    return layers_above * layer + 2 * d * shape.vocabulary


def _hooked_effects(bridge: Any, tokens: Tensor, answers: Tensor, layer: int, values: Tensor) -> Tensor:
    """Indirect effects (neurons,) of one prompt by a full hooked forward pass for each value."""

    def log_probabilities(hooks: list[tuple[str, Callable[..., Tensor]]]) -> Tensor:
        z: Tensor = bridge.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1]
        return z.float().log_softmax(-1).gather(1, answers)[0]

    clean = log_probabilities([])
    moved = []
    for neuron, value in enumerate(values):

        def patch(activation: Tensor, hook: object, neuron: int = neuron, value: Tensor = value) -> Tensor:
            activation[:, -1, neuron] = value
            return activation

        moved.append(log_probabilities([(f"blocks.{layer}.mlp.hook_post", patch)]) - clean)
    change = torch.stack(moved)
    return indirect_effect(change[:, 1], change[:, 0])


@torch.no_grad()
def measure(
    model: Decoder, bridge: Any, shape: Shape, length: int, candidates: int, hooked: int, repeats: int, rate: float
) -> Measurement:
    """Measure one prompt length, patching the first late layer (the dearest for replay).

    Args:
        bridge: the same model in TransformerLens.
        candidates: neurons that replay patches.
        hooked: how many of them the hooked forward pass patches too.
        rate: from `matmul_rate`.
    """
    first = shape.n_layers // 2
    rng = torch.Generator().manual_seed(length)
    tokens, corrupt = (torch.randint(0, 1000, (1, length), generator=rng) for _ in range(2))
    answers = torch.tensor([[11, 12]])
    cache = build_cache(model, tokens, first)
    given = last_token_neurons(model, corrupt, first)[0]
    chosen = torch.arange(candidates)

    def run_replay() -> Tensor:
        return patch_neurons(model, cache, first, chosen, given[:, :candidates], answers)

    def run_hooked() -> Tensor:
        return _hooked_effects(bridge, tokens, answers, first, given[0, :hooked])

    difference = (run_replay()[0, :hooked] - run_hooked()).abs().max().item()
    replayed = _best(run_replay, repeats) / candidates
    full = _best(run_hooked, repeats) / (hooked + 1)
    operations = replay_operations(shape, shape.n_layers - first - 1, length)
    return Measurement(length, full, replayed, full / replayed, operations / replayed / rate, difference)


def table(shape: Shape, measurements: list[Measurement], rate: float, threads: int) -> str:
    """The measurements as a table for people."""
    lines = [
        f"Llama with random weights: {', '.join(f'{key} {value}' for key, value in asdict(shape).items())}",
        f"fp32, {threads} thread(s), matrix products at {rate / 1e9:.0f} GFLOP/s; neurons of the first late layer",
        "",
        "tokens  hooked ms/neuron  replay ms/neuron  times faster  share of matmul rate  max |difference in IE|",
    ]
    lines += [
        f"{one.tokens:6d}  {1e3 * one.full:16.2f}  {1e3 * one.replayed:16.3f}  {one.ratio:12.1f}"
        f"  {one.share:20.0%}  {one.difference:22.1e}"
        for one in measurements
    ]
    ratio = np.ptp([one.replayed for one in measurements]) / min(one.replayed for one in measurements)
    lines += ["", f"Cost of replay differs by {ratio:.0%} between these lengths."]
    return "\n".join(lines)
