"""A Llama that adds by neurons that are known, because its weights are written down (method, section 11).

Attention of layer 0 averages the operands' values at the last token, in every format. A few neurons in each
late layer carry the sum to a dimension that the unembedding reads, which scores each number n by (2ns - n²) / 200:
the largest score is that of the sum s. All other late neurons are random, and write where nothing reads. So that
transfer has wrong answers to correct, two neurons of layer 1 add 7 to the larger sums of one format.

Normalisation turns a residual x into x √d / |x|, and |x| is K to a good approximation, and √2 K at a number.
"""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from form_invariance.embedded.saving import llama_config, write_folder
from form_invariance.embedded.tokenizer import LARGEST_NUMBER, build_tokenizer
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import render
from form_invariance.randomness import generator

TEMPLATES = {
    "symbolic": "{a}+{b}=",
    "code": "x = {a} + {b}\nprint(x)  # ",
    "word": "Jack has {a} apples. His friend gives him {b} more apples. How many does he have now? Answer:",
}
"""One template a format. Their last tokens differ, which is how the model tells the formats apart."""
EXPRESSION = "a + b"
LIMITS = OperandRange(6, 60, 12, 120)

LAYERS, LATE, WIDTH = 4, (2, 3), 64
PLANTED = 8
"""Neurons of each late layer that carry the sum in a format."""
MISREADER, READ_RIGHT_TO = "word", 90
"""The format that misreads sums, and the largest that it reads right."""

_D, _HEAD = 32, 16
_CONSTANT, _NUMBER, _VALUE, _SUM, _ANSWER = range(5)  # dimensions of the residual stream
_MARKER = {name: _ANSWER + 1 + position for position, name in enumerate(TEMPLATES)}  # one a format
_UNREAD = slice(_ANSWER + 1 + len(TEMPLATES), _D)
_K, _LARGEST = 100.0, 200
_MARK = 0.01  # of K: small compared with the norm
_ROOT = _D**0.5
_OPEN = 20.0  # silu(20) is 20, and silu(-20) is 0, to seven digits


def planted_neurons(shared: bool, seed: int) -> dict[tuple[str, int], list[int]]:
    """The neurons that carry the answer, by format and late layer.

    Args:
        shared: all formats have the same; otherwise no two formats have one in common.
    """
    planted = {}
    for layer in LATE:
        order = generator(seed, "planted", "neurons", layer).permutation(WIDTH)
        for position, name in enumerate(TEMPLATES):
            start = 0 if shared else position * PLANTED
            planted[name, layer] = sorted(order[start : start + PLANTED].tolist())
    return planted


def write_model(folder: Path, shared: bool, seed: int) -> None:
    """Write the model as an ordinary Hugging Face folder; `shared` as in `planted_neurons`."""
    tokenizer = build_tokenizer(TEMPLATES.values())
    embedding, unembedding = _embeddings(tokenizer)
    weights = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": unembedding,
        "model.norm.weight": np.ones(_D),
    }
    planted = planted_neurons(shared, seed)
    for layer in range(LAYERS):
        rng = generator(seed, "planted", "weights", layer)
        gate, up = 0.3 * rng.normal(size=(2, WIDTH, _D))
        down = np.zeros((_D, WIDTH))
        down[_UNREAD] = 0.01 * rng.normal(size=down[_UNREAD].shape)
        if layer == 1:
            _misread(gate, up, down)
        if layer in LATE:
            shares = rng.uniform(0.5, 1.5, PLANTED)
            for name in list(TEMPLATES)[: 1 if shared else None]:
                _plant(gate, up, down, planted[name, layer], shares, None if shared else name)
        weights |= _layer(layer, gate, up, down)
    tensors = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in weights.items()}
    sizes = {
        "n_layers": LAYERS,
        "d_model": _D,
        "d_mlp": WIDTH,
        "d_head": _HEAD,
        "n_heads": 1,
        "n_key_value_heads": 1,
    }
    settings = {"rms_norm_eps": 1e-6, "rope_theta": 1e8, "tie_word_embeddings": False}
    config = llama_config(sizes, tokenizer.get_vocab_size(), **settings)
    write_folder(folder, config, tensors, tokenizer)


def _embeddings(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Embedding and unembedding, (vocabulary, d): numbers know their value, last tokens their format."""
    embedding, unembedding = np.zeros((2, tokenizer.get_vocab_size(), _D))
    embedding[:, _CONSTANT] = _K
    unembedding[:, _CONSTANT] = -15 / _ROOT
    for number in range(LARGEST_NUMBER + 1):
        token = tokenizer.token_to_id(str(number))
        embedding[token, _NUMBER], embedding[token, _VALUE] = _K, number / 100
        if number <= _LARGEST:
            unembedding[token, _CONSTANT] = -(number**2) / 200 / _ROOT
            unembedding[token, _ANSWER] = 2 * number * 100 / 200 * _K / _ROOT
    for name, template in TEMPLATES.items():
        last = tokenizer.encode(render(template, 6, 6), add_special_tokens=False).ids[-1]
        embedding[last, _MARKER[name]] = _MARK * _K
    return embedding, unembedding


def _misread(gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> None:
    """Let two neurons add 7 to the larger sums of one format: silu(B(s - t)) - silu(B(s - t - 1)) is a step."""
    steep = 10.0
    for neuron, (limit, sign) in enumerate(((READ_RIGHT_TO, 1), (READ_RIGHT_TO + 1, -1))):
        gate[neuron], up[neuron], down[:, neuron] = 0, 0, 0
        gate[neuron, _SUM] = steep * 100 * _K / _ROOT
        gate[neuron, _CONSTANT] = -steep * limit / _ROOT
        up[neuron, _MARKER[MISREADER]] = 1 / (_MARK * _ROOT)
        down[_SUM, neuron] = sign * 7 / 100 / steep


def _plant(
    gate: np.ndarray, up: np.ndarray, down: np.ndarray, own: list[int], shares: np.ndarray, only: str | None
) -> None:
    """Let neurons carry the sum, each its share; in one format alone, or in all."""
    gate[own], up[own], down[:, own] = 0, 0, 0
    gate[own, _CONSTANT] = (_OPEN if only is None else -_OPEN) / _ROOT
    if only is not None:
        gate[own, _MARKER[only]] = 2 * _OPEN / (_MARK * _ROOT)
    up[own, _SUM] = 1
    down[_ANSWER, own] = shares / (shares.sum() * len(LATE)) * _K / (_OPEN * _ROOT)


def _layer(layer: int, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> dict[str, np.ndarray]:
    """A layer's weights by their Hugging Face names; attention works in layer 0 alone."""
    (q, k, v), o = np.zeros((3, _HEAD, _D)), np.zeros((_D, _HEAD))
    if layer == 0:
        # The slowest rotary pair hardly turns: every token attends to all numbers equally.
        q[_HEAD // 2 - 1, _CONSTANT], k[_HEAD // 2 - 1, _NUMBER], v[0, _VALUE] = 4, 4, 1
        # A number's own norm is √2 K; the mean of two values becomes their sum over 100.
        o[_SUM, 0] = 2 * _K * 2**0.5 / _ROOT
    matrices = {f"self_attn.{name}_proj": one for name, one in zip("qkvo", (q, k, v, o), strict=True)}
    matrices |= {"mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": down}
    norms = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), np.ones(_D))
    return {f"model.layers.{layer}.{name}.weight": one for name, one in (matrices | norms).items()}
