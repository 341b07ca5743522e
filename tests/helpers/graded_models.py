"""Planted models whose formats share a known part of their neurons, with sizes and noise as in a real model.

The planted neurons of a format carry the sum in very unequal shares. Distractors carry small shares, as much with
either sign, so that they cancel. The same part of both serves every format; the others serve one. Every one of
these neurons also carries noise: a random mixture of features of the operands, which cancels over its group, so
that the answer is right but a neuron's effect differs from prompt to prompt. One format misreads its larger sums
by little to much, so that what transfer corrects depends on how much of the sum the shared neurons carry.
"""

import numpy as np
import planted_models as planted
from planted_models import LATE, LIMITS, TEMPLATES, planted_neurons

from embedded_training.tokenizer import build_tokenizer
from form_invariance.randomness import generator

WIDTH, PLANTED = 256, 16
"""Neurons of a layer, and those of each late layer that carry the sum in a format."""
_SMALL = np.geomspace(0.1, 0.02, 24)
SIZES = np.concatenate([np.geomspace(1, 0.2, PLANTED), _SMALL, -_SMALL])
"""Shares of the sum, up to a factor: of a format's planted neurons, then of its distractors."""
STRATUM = 4
"""Shared neurons are spread evenly over the sizes: as many among every four in order, where these are whole."""
MISREAD = {96: 0.6, 100: 0.3, 104: 0.4, 108: 0.7, 112: 2.0}
"""What one format adds above each sum, if failures arise before the late layers; the steps add up."""
MISREAD_LATE = {96: 7.0}
"""The same, if they arise in a late layer."""

_FEATURES, _WRITTEN = slice(8, 16), slice(16, planted.D)  # dimensions of features; dimensions that nothing reads
_NOISE = 0.5  # deviation of a neuron's noise: a multiple of the largest share


def carriers(share, seed):
    """Carrying neurons by format and late layer, in the order of `SIZES`; all formats have the share `share`."""
    neurons = planted_neurons(share, seed, len(SIZES), WIDTH)
    by_layer = {}
    for layer in LATE:
        common = sorted(set.intersection(*(set(neurons[name, layer]) for name in TEMPLATES)))
        places = _shared_places(share, seed, layer)
        for name in TEMPLATES:
            ordered = np.empty(len(SIZES), dtype=np.int64)
            ordered[places] = common
            ordered[~places] = sorted(set(neurons[name, layer]) - set(common))
            by_layer[name, layer] = ordered
    return by_layer


def _shared_places(share, seed, layer):
    """Which of the sizes belong to neurons of every format, bool, (sizes,)."""
    rng = generator(seed, "calibration", "places", layer)
    places = [rng.permutation(STRATUM) < round(share * STRATUM) for _ in range(len(SIZES) // STRATUM)]
    return np.concatenate(places)


def write_model(folder, share, seed, late_failures=False):
    """Write the model; with `late_failures` wrong answers arise in the first late layer, else before it."""
    tokenizer = build_tokenizer(TEMPLATES.values())
    embedding, unembedding = planted.embeddings(tokenizer)
    for number, features in zip(range(LIMITS.operand_min, LIMITS.operand_max + 1), _features(seed), strict=True):
        embedding[tokenizer.token_to_id(str(number)), _FEATURES] = features / 100
    layers = []
    for layer in range(planted.LAYERS):
        matrices = planted.random_neurons(generator(seed, "calibration", "weights", layer), WIDTH, _WRITTEN)
        if layer == 1 and not late_failures:
            planted.misread(*matrices, MISREAD, planted.SUM)
        if layer in LATE:
            _carry(*matrices, share, seed, layer)
        if layer == LATE[0] and late_failures:
            planted.misread(*matrices, MISREAD_LATE, planted.ANSWER, _unused(share, seed, layer))
        layers.append(matrices)
    weights = planted.weights_of(embedding, unembedding, layers)
    _let_attention_move_features(weights)
    planted.save(folder, weights, tokenizer)


def _unused(share, seed, layer):
    """The first of two neighbours that carry nothing."""
    used = [numbers for (_, place), numbers in carriers(share, seed).items() if place == layer]
    free = np.setdiff1d(np.arange(WIDTH), np.concatenate(used))
    return int(free[np.flatnonzero(np.diff(free) == 1)[0]])


def _features(seed):
    """Features of every operand, uncorrelated with it and each other, so that the noise is no part of the sum."""
    values = np.arange(LIMITS.operand_min, LIMITS.operand_max + 1)
    rng = generator(seed, "calibration", "features")
    columns = np.column_stack([np.ones(len(values)), values, rng.normal(size=(len(values), 8))])
    orthogonal, _ = np.linalg.qr(columns)
    return orthogonal[:, 2:] * len(values) ** 0.5 * values.std()


def _let_attention_move_features(weights):
    """Let layer 0 put the sum of the operands' features where the operands have theirs, as it does with values."""
    attention = "model.layers.0.self_attn."
    value, output = weights[f"{attention}v_proj.weight"], weights[f"{attention}o_proj.weight"]
    for row, dimension in enumerate(range(planted.D)[_FEATURES], 1):
        value[row, dimension] = 1
        output[dimension, row] = output[planted.SUM, 0]


def _carry(gate, up, down, share, seed, layer):
    """Let the planted neurons of a late layer carry their part of the sum, and the distractors nothing in sum."""
    parts = SIZES / (SIZES.sum() * len(LATE))
    common = _shared_places(share, seed, layer)
    planted_ones = np.arange(len(SIZES)) < PLANTED
    neurons = carriers(share, seed)
    groups = [(name, name, ~common) for name in TEMPLATES] + [(next(iter(TEMPLATES)), None, common)]
    for name, only, group in groups:
        for kind in (planted_ones, ~planted_ones):
            chosen = group & kind
            if chosen.any():
                members = neurons[name, layer][chosen]
                planted.plant(gate, up, down, members.tolist(), parts[chosen], only)
                rng = generator(seed, "calibration", "noise", layer, only, kind[0])
                # The noise of a group's neurons cancels over the group, (members, features).
                noise = rng.normal(size=(len(members), 8)) * _NOISE / 8**0.5
                noise = (noise - noise.mean(0)) * (len(members) / (len(members) - 1)) ** 0.5
                up[members, _FEATURES] = noise * parts[0] / parts[chosen, None]
