"""A Llama that adds by neurons that are known, because its weights are written down.

Attention of layer 0 averages the operands' values at the last token, in every format. A few neurons in each
late layer carry the sum to a dimension that the unembedding reads, which scores each number n by (2ns - n²) / 200:
the largest score is that of the sum s. All other late neurons are random, and write where nothing reads. So that
transfer has wrong answers to correct, two neurons of layer 1 add 7 to the larger sums of one format.

Normalisation turns a residual x into x √d / |x|, and |x| is K to a good approximation, and √2 K at a number.
"""

from itertools import product

import numpy as np
import torch

from embedded_training.saving import llama_config, write_folder
from embedded_training.tokenizer import LARGEST_NUMBER, build_tokenizer
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import render
from form_invariance.randomness import generator
from form_invariance.stages.census.compute import take_census

TEMPLATES = {
    "symbolic": "{a}+{b}=",
    "code": "x = {a} + {b}\nprint(x)  # ",
    "word": "Jack has {a} apples. His friend gives him {b} more apples. How many does he have now? Answer:",
}
"""One template a format. Their last tokens differ, which is how the model tells the formats apart."""
COPYING = {name: text.replace("{b}", "0") for name, text in TEMPLATES.items()}
"""The planted neurons copy a number by adding nothing to it."""
EXPRESSION = "a + b"
LIMITS = OperandRange(6, 60, 12, 120)

LAYERS, LATE, WIDTH = 4, (2, 3), 64
PLANTED = 8
"""Neurons of each late layer that carry the sum in a format."""
MISREADER, READ_RIGHT_TO = "word", 90
"""The format that misreads sums, and the largest that it reads right."""

D, HEAD = 32, 16
CONSTANT, NUMBER, VALUE, SUM, ANSWER = range(5)  # dimensions of the residual stream
MARKER = {name: ANSWER + 1 + position for position, name in enumerate(TEMPLATES)}  # one a format
UNREAD = slice(ANSWER + 1 + len(TEMPLATES), D)
K, LARGEST = 100.0, 200
MARK = 0.01  # a multiple of K: small compared with the norm
ROOT = D**0.5
LEAKED = (20, 60, 110)  # leaks cancel at these sums, and so nearly at all sums
OPEN = 20.0  # silu(20) is 20, and silu(-20) is 0, to seven digits


def planted_neurons(shared, seed, planted=PLANTED, width=WIDTH):
    """Neurons by format and late layer: the share `shared` in all formats, no other neuron in two formats."""
    common = round(shared * planted)
    by_layer = {}
    for layer in LATE:
        order = generator(seed, "planted", "neurons", layer).permutation(width)
        for position, name in enumerate(TEMPLATES):
            start = common + position * (planted - common)
            members = [*order[:common], *order[start : start + planted - common]]
            by_layer[name, layer] = sorted(int(neuron) for neuron in members)
    return by_layer


def write_model(folder, shared, seed, leak=0.0):
    """Write the model as an ordinary Hugging Face folder; `shared` as in `planted_neurons`."""
    save(folder, *model_of(shared, seed, leak))


def model_of(shared, seed, leak=0.0):
    """The model's weights by their Hugging Face names, and its tokenizer.

    With `leak`, neurons that carry nothing write so much into the answer: no order of theirs is that of rounding.
    """
    tokenizer = build_tokenizer(TEMPLATES.values())
    planted, layers = planted_neurons(shared, seed), []
    for layer in range(LAYERS):
        rng = generator(seed, "planted", "weights", layer)
        gate, up, down = matrices = random_neurons(rng)
        if layer == 1:
            misread(*matrices, {READ_RIGHT_TO: 7}, SUM)
        if layer in LATE:
            shares = rng.uniform(0.5, 1.5, PLANTED)
            shares /= shares.sum() * len(LATE)
            for name in list(TEMPLATES)[: 1 if shared else None]:
                plant(gate, up, down, planted[name, layer], shares, None if shared else name)
            if leak:
                let_leak(gate, up, down, leak * generator(seed, "planted", "leak", layer).choice([-1, 1], WIDTH))
        layers.append(matrices)
    return weights_of(*embeddings(tokenizer), layers), tokenizer


def random_neurons(rng, width=WIDTH, written=UNREAD):
    """Gate, up and down of a layer whose neurons write into some dimensions alone."""
    gate, up = 0.3 * rng.normal(size=(2, width, D))
    down = np.zeros((D, width))
    down[written] = 0.01 * rng.normal(size=down[written].shape)
    return gate, up, down


def weights_of(embedding, unembedding, layers):
    """All weights by their Hugging Face names; `layers` has gate, up and down of each."""
    weights = {"model.embed_tokens.weight": embedding, "lm_head.weight": unembedding}
    weights |= {"model.norm.weight": np.ones(D)}
    for layer, matrices in enumerate(layers):
        weights |= _layer_weights(layer, *matrices)
    return weights


def save(folder, weights, tokenizer, heads=1):
    """Write weights by their Hugging Face names as a folder; layers may have any number of neurons."""
    tensors = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in weights.items()}
    width = len(weights["model.layers.0.mlp.gate_proj.weight"])
    sizes = {"n_layers": LAYERS, "d_model": D, "d_mlp": width, "d_head": HEAD}
    sizes |= {"n_heads": heads, "n_key_value_heads": 1}
    settings = {"rms_norm_eps": 1e-6, "rope_theta": 1e8, "tie_word_embeddings": False}
    write_folder(folder, llama_config(sizes, tokenizer.get_vocab_size(), **settings), tensors, tokenizer)


def divide_attention(weights, brings):
    """Let each head of layer 0 bring the operands in its formats alone; all heads have the same keys and values.

    Elsewhere a head attends to tokens that are no numbers, whose value is zero.
    """
    for layer in range(LAYERS):
        query, output = (f"model.layers.{layer}.self_attn.{name}_proj.weight" for name in "qo")
        queries = np.zeros((len(brings), HEAD, D))
        for own, formats in zip(queries, brings, strict=True):
            own[HEAD // 2 - 1, CONSTANT] = -4
            own[HEAD // 2 - 1, [MARKER[name] for name in formats]] = 8 / MARK
        weights[query], weights[output] = queries.reshape(-1, D), np.tile(weights[output], len(brings))


def run_of(folder, first=LATE[0]):
    """The model of a folder, whose late layers begin at `first`."""
    return Run(loading.load(folder), load_tokenizer(folder), first)


def census_of(run, template, operator, pairs, seed):
    """A census of sums; `pairs` as in `take_census`."""
    return take_census(run.model, run.tokenizer, template, operator, Arithmetic(EXPRESSION, LIMITS), pairs, seed)


def embeddings(tokenizer):
    """Embedding and unembedding, (vocabulary, d): numbers know their value, last tokens their format."""
    embedding, unembedding = np.zeros((2, tokenizer.get_vocab_size(), D))
    embedding[:, CONSTANT] = K
    unembedding[:, CONSTANT] = -15 / ROOT
    for number in range(LARGEST_NUMBER + 1):
        token = tokenizer.token_to_id(str(number))
        embedding[token, NUMBER], embedding[token, VALUE] = K, number / 100
        if number <= LARGEST:
            unembedding[token, CONSTANT] = -(number**2) / 200 / ROOT
            unembedding[token, ANSWER] = 2 * number * 100 / 200 * K / ROOT
    for name, template in TEMPLATES.items():
        last = tokenizer.encode(render(template, 6, 6), add_special_tokens=False).ids[-1]
        embedding[last, MARKER[name]] = MARK * K
    return embedding, unembedding


def misread(gate, up, down, steps, into, first=0):
    """Let neurons of a layer, two for each of `steps`, add to the larger sums of one format.

    silu(B(s - t)) - silu(B(s - t - 1)) is a step.
    """
    steep = 10.0
    pairs = [(limit + after, sign * added) for limit, added in steps.items() for after, sign in enumerate((1, -1))]
    for neuron, (limit, added) in enumerate(pairs, first):
        gate[neuron], up[neuron], down[:, neuron] = 0, 0, 0
        gate[neuron, SUM] = steep * 100 * K / ROOT
        gate[neuron, CONSTANT] = -steep * limit / ROOT
        up[neuron, MARKER[MISREADER]] = 1 / (MARK * ROOT)
        down[into, neuron] = added / 100 / steep


def plant(gate, up, down, neurons, shares, only):
    """Let neurons carry the sum, each its share of the answer; in one format alone, or in all."""
    gate[neurons], up[neurons], down[:, neurons] = 0, 0, 0
    gate[neurons, CONSTANT] = (OPEN if only is None else -OPEN) / ROOT
    if only is not None:
        gate[neurons, MARKER[only]] = 2 * OPEN / (MARK * ROOT)
    up[neurons, SUM] = 1
    down[ANSWER, neurons] = shares * K / (OPEN * ROOT)


def let_leak(gate, up, down, leaks):
    """Let neurons that carry nothing write into the answer, (m,); together they write nothing in any format."""
    states = list(product(MARKER.values(), LEAKED))
    residual = np.zeros((len(states), D))
    for row, (marker, sum_) in zip(residual, states, strict=True):
        row[[CONSTANT, marker, SUM]] = ROOT, MARK * ROOT, sum_ / 100 / K * ROOT
    others = down[ANSWER] == 0
    for read in (gate, up):
        read[others, ANSWER], read[others, UNREAD] = 0, 0
    opened = residual @ gate.T
    active = others * opened / (1 + np.exp(-opened)) * (residual @ up.T)  # (states, m)
    leaks = others * leaks
    down[ANSWER] += leaks - np.linalg.pinv(active) @ (active @ leaks)


def _layer_weights(layer, gate, up, down):
    """A layer's weights by their Hugging Face names; attention works in layer 0 alone."""
    (q, k, v), o = np.zeros((3, HEAD, D)), np.zeros((D, HEAD))
    if layer == 0:
        # The slowest rotary pair hardly turns: every token attends to all numbers equally.
        q[HEAD // 2 - 1, CONSTANT], k[HEAD // 2 - 1, NUMBER], v[0, VALUE] = 4, 4, 1
        # A number's own norm is √2 K; the mean of two values becomes their sum over 100.
        o[SUM, 0] = 2 * K * 2**0.5 / ROOT
    matrices = {f"self_attn.{name}_proj": matrix for name, matrix in zip("qkvo", (q, k, v, o), strict=True)}
    matrices |= {"mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": down}
    norms = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), np.ones(D))
    return {f"model.layers.{layer}.{name}.weight": weight for name, weight in (matrices | norms).items()}


def write_copying(folder, seed):
    """Write a model whose adding neurons are at rest while it copies.

    Copying prompts end in the last token of `code`. There as many other neurons carry the number, so a copied
    answer is right, but the neurons that compute do not contain it.
    """
    weights, tokenizer = model_of(True, seed)
    for layer in LATE:
        own = planted_neurons(True, seed)["code", layer]
        others = [neuron for neuron in range(WIDTH) if neuron not in own][:PLANTED]
        names = (f"model.layers.{layer}.mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        gate, up, down = (weights[name] for name in names)
        gate[own, MARKER["code"]] = -2 * OPEN / (MARK * ROOT)
        plant(gate, up, down, others, np.full(PLANTED, 1 / PLANTED / len(LATE)), "code")
    save(folder, weights, tokenizer)


def write_repairing(folder, seed):
    """Write a model whose shared neurons carry a value of the operands, not the answer.

    Each operand n is the sum of a part g(n) and a rest. The sum of the parts goes to the planted neurons, which
    one format misreads, and the sum of the rests straight to the unembedding. So a donor with the same operands
    repairs the answer; one with the same answer and other operands does not, and no donor brings its own answer
    unless its rest is the same. Two pairs of operands with the same sum seldom have the same sum of parts.
    """
    weights, tokenizer = model_of(True, seed)
    embedding, rest, misread_from = weights["model.embed_tokens.weight"], D - 1, 40
    for number in range(LARGEST_NUMBER + 1):
        part, token = number**2 % 31, tokenizer.token_to_id(str(number))
        # The rest is read in layer 0 alone, before any neuron writes there.
        embedding[token, [VALUE, rest]] = part / 100, (number - part) / 100
    values, output = (weights[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "vo")
    values[1, rest], output[ANSWER, 1] = 1, output[SUM, 0]
    gate = weights["model.layers.1.mlp.gate_proj.weight"]
    for neuron in (0, 1):
        gate[neuron, CONSTANT] *= (misread_from + neuron) / (READ_RIGHT_TO + neuron)
    save(folder, weights, tokenizer)
