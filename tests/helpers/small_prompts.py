"""Four problems in the paper's formats: prompts, corrupt partners, answers and means, for the oracles."""

import numpy as np
import oracles
import torch

from form_invariance.stages.mean_cache import compute as mean_cache

PROMPTS = {
    "symbolic": "{a}+{b}=",
    "code": "a = {a}\nb = {b}\nprint(a + b)  # ",
    "word": "Jack has {a} apples. His friend gives him {b} more apples. "
    "How many apples does Jack have now? Answer: ",
}
PAIRS = [(226, 68), (17, 433), (99, 6), (505, 250)]
CORRUPT = [(17, 433), (505, 250), (226, 68), (99, 6)]


def prepared(tokenizer, name):
    def encode(pairs):
        return torch.from_numpy(tokenizer.encode_batch([PROMPTS[name].format(a=a, b=b) for a, b in pairs]))

    sums = [[a + b for a, b in pairs] for pairs in (PAIRS, CORRUPT)]
    answers = torch.from_numpy(np.stack([tokenizer.number_tokens(row) for row in sums], axis=1))
    return encode(PAIRS), encode(CORRUPT), answers


_CACHED = {"symbolic": [(5, 9), (123, 456), (700, 12), (31, 32)], "word": [(5, 9), (123, 456), (700, 12)]}
CACHE_PROMPTS = {name: [PROMPTS[name].format(a=a, b=b) for a, b in own] for name, own in _CACHED.items()}


def prepare(model, tokenizer, name):
    tokens, _, answers = prepared(tokenizer, name)
    return tokens, answers[:, 0], mean_cache.compute(model, tokenizer, [CACHE_PROMPTS[name]])


def plain_means(folder, tokenizer, prompts, layers):
    """Means by the plain way: record everything, average, first token (BOS) left as it is."""
    tokens = torch.from_numpy(tokenizer.encode_batch(prompts))
    return oracles.all_neurons(oracles.bridge(folder), tokens, range(layers)).mean(1)  # (layers, T, m)
