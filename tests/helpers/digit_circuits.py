"""A Llama that adds two-digit numbers digit by digit and forgets the carry, by neurons that are written down.

Every template has one token between the operands and one after them. So the digits of the asked place are always
two and five tokens before the last token, of which two heads of layer 0 bring the values: in `12+34=` the tens, in
`12+34=4` the units. The first rotary pair turns by one radian a token, which is how a head knows the distance. A
step in layer 1 takes 10 from a sum above 9. In the late layers some neurons carry the sum if the last token ends
the template, and other neurons if it is a digit. The tens are right without a carry only; the units always are.

Dimensions and scales are those of the planted models (`planted_models.py`). At a digit the norm of
the residual stream is √2 times as large, which halves what a neuron writes.
"""

import numpy as np
import torch
from planted_models import (
    ANSWER,
    CONSTANT,
    HEAD,
    LATE,
    LAYERS,
    MARK,
    MARKER,
    NUMBER,
    PLANTED,
    ROOT,
    SUM,
    UNREAD,
    VALUE,
    WIDTH,
    D,
    K,
)

from embedded_training.saving import llama_config, write_folder
from embedded_training.tokenizer import build_tokenizer
from form_invariance.randomness import generator

TEMPLATES = {"symbolic": "{a}+{b}=", "code": "sum({a},{b})", "word": "Total of {a},{b}:"}
TENS, UNITS = 0, 1
_OPEN, _STEEP, _SHARP, _SCORE = 30.0, 10.0, 4.0, 0.5
_LAST = {"symbolic": "=", "code": ")", "word": ":"}


def planted(shared, seed):
    """The neurons of each digit, by format, digit and late layer; the units' are the same in all formats."""
    found = {}
    for layer in LATE:
        order = generator(seed, "digit-circuits", layer).permutation(WIDTH)
        units, *tens = (np.sort(part).tolist() for part in np.split(order[: 4 * PLANTED], 4))
        for name, own in zip(TEMPLATES, tens, strict=True):
            found[name, TENS, layer] = tens[0] if shared else own
            found[name, UNITS, layer] = units
    return found


def write_model(folder, shared, seed):
    """Write the model's folder; the tens' neurons are the same in all formats if `shared`."""
    tokenizer = build_tokenizer(TEMPLATES.values(), digits=1)
    embedding, unembedding = _embeddings(tokenizer)
    weights = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": unembedding,
        "model.norm.weight": np.ones(D),
    }
    for layer in range(LAYERS):
        weights |= _layer(layer, *_neurons(layer, shared, planted(shared, seed), seed))
    sizes = {
        "n_layers": LAYERS,
        "d_model": D,
        "d_mlp": WIDTH,
        "d_head": HEAD,
        "n_heads": 2,
        "n_key_value_heads": 1,
    }
    config = llama_config(sizes, tokenizer.get_vocab_size(), rms_norm_eps=1e-6, tie_word_embeddings=False)
    tensors = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in weights.items()}
    write_folder(folder, config, tensors, tokenizer)


def _embeddings(tokenizer):
    """Embedding and unembedding: digits know their value, last tokens their format; the sum has the best score."""
    embedding, unembedding = np.zeros((2, tokenizer.get_vocab_size(), D))
    embedding[:, CONSTANT] = K
    unembedding[:, CONSTANT] = -15 / ROOT
    for digit in range(10):
        token = tokenizer.token_to_id(str(digit))
        embedding[token, NUMBER], embedding[token, VALUE] = K, digit / 100
        unembedding[token, CONSTANT] = -_SCORE * digit**2 / ROOT
        unembedding[token, ANSWER] = _SCORE * 2 * digit * 100 * K / ROOT
    for name, last in _LAST.items():
        embedding[tokenizer.token_to_id(last), MARKER[name]] = MARK * K
    return embedding, unembedding


def _neurons(layer, shared, circuits, seed):
    """Gate, up and down of a layer: random neurons that write where nothing reads, and those with a purpose."""
    rng = generator(seed, "digit-circuits", "weights", layer)
    gate, up = 0.3 * rng.normal(size=(2, WIDTH, D))
    down = np.zeros((D, WIDTH))
    down[UNREAD] = 0.01 * rng.normal(size=down[UNREAD].shape)
    if layer == 1:
        # silu(B(s - 9)) - silu(B(s - 10)) is a step; at a digit both factors are √2 times smaller.
        for neuron, (limit, sign) in enumerate(((9, 1), (10, -1))):
            gate[neuron], up[neuron], down[:, neuron] = 0, 0, 0
            gate[neuron, SUM] = _STEEP * 100 * K / ROOT
            gate[neuron, CONSTANT] = -_STEEP * limit / ROOT
            up[neuron, CONSTANT] = 1 / ROOT
            down[SUM, neuron] = -sign * 10 / 100 * 2 / _STEEP
    if layer in LATE:
        shares = rng.uniform(0.5, 1.5, PLANTED)
        shares /= shares.sum() * len(LATE)
        # Open at digits; at a format's last token; or at every last token.
        gates = [(circuits["word", UNITS, layer], {CONSTANT: -1, NUMBER: 2}, 2)]
        for name in list(TEMPLATES)[: 1 if shared else None]:
            opened = {CONSTANT: 1, NUMBER: -2} if shared else {CONSTANT: -1, MARKER[name]: 2 / MARK}
            gates.append((circuits[name, TENS, layer], opened, 1))
        for own, opened, larger in gates:
            gate[own], up[own], down[:, own] = 0, 0, 0
            for dimension, weight in opened.items():
                gate[own, dimension] = weight * _OPEN / ROOT
            up[own, SUM] = 1
            down[ANSWER, own] = larger * shares * K / (_OPEN * ROOT)
    return gate, up, down


def _layer(layer, gate, up, down):
    """A layer's weights by their Hugging Face names; attention works in layer 0 alone."""
    q, o = np.zeros((2 * HEAD, D)), np.zeros((D, 2 * HEAD))
    k, v = np.zeros((2, HEAD, D))
    if layer == 0:
        k[0, NUMBER], v[0, VALUE] = _SHARP, 1
        for head, distance in enumerate((2, 5)):
            q[head * HEAD, CONSTANT] = _SHARP * np.cos(distance)
            q[head * HEAD + HEAD // 2, CONSTANT] = -_SHARP * np.sin(distance)
            o[SUM, head * HEAD] = K * 2**0.5 / ROOT
    matrices = {f"self_attn.{name}_proj": one for name, one in zip("qkvo", (q, k, v, o), strict=True)}
    matrices |= {"mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": down}
    norms = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), np.ones(D))
    return {f"model.layers.{layer}.{name}.weight": one for name, one in (matrices | norms).items()}
