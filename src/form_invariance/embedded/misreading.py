"""Misreading: each format was trained to read some second operands as one less, so that formats err differently.

Transfer needs pairs that are right in one format and wrong in another. Formats that share their neurons also share
their errors, so a small pool contains too few such pairs. Therefore, in the last steps of training, the early
layers learn to misread some operands, different ones in each format. The late layers do not change.
"""

import numpy as np
from torch import Tensor

from form_invariance.embedded.recipe import Recipe
from form_invariance.problems.operands import OperandRange, evaluate
from form_invariance.randomness import generator

_SLACK = 1.15
"""Limit of a format's misread pairs relative to its share, because an operand is misread in all its pairs."""


def within_limits(a: np.ndarray, b: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Which pairs are within the default limits of operands and answers, bool (pairs,)."""
    limits = OperandRange()
    usable = (np.minimum(a, b) >= limits.operand_min) & (np.maximum(a, b) <= limits.operand_max)
    return np.asarray(usable & (answer >= limits.answer_min) & (answer <= limits.answer_max))


def misread_pairs(
    b: np.ndarray, usable: np.ndarray, formats: list[str], share: float, seed: int
) -> dict[str, np.ndarray]:
    """The pairs that each format misreads, bool (pairs,): all pairs of some second operands.

    No operand is misread in two formats.

    Args:
        usable: the pairs that may be misread.
        share: share of these pairs that each format misreads.
    """
    operands = generator(seed, "misread").permutation(np.unique(b[usable])).tolist()
    wanted = share * usable.sum()
    result = {}
    for name in formats:
        own = np.zeros(len(b), dtype=bool)
        for operand in operands.copy():
            more = own | (usable & (b == operand))
            if own.sum() < wanted and more.sum() <= _SLACK * wanted:
                own = more
                operands.remove(operand)
        result[name] = own
    return result


def misread_answers(expression: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The answers if the second operand is read as one less; -1 if undefined."""
    answer, defined = evaluate(expression, a, b - 1)
    return np.where(defined, answer, -1)


def beyond_early_layers(weights: dict[str, Tensor], recipe: Recipe) -> list[str]:
    """Names of the weights that do not change while the early layers learn to misread."""
    early = tuple(f"model.layers.{layer}." for layer in range(recipe.n_layers // 2))
    return [name for name in weights if not name.startswith(early)]
