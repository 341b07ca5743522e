"""What makes the formats err at different problems: each misreads some second operands, as one less.

Formats that share their neurons also share their errors, and where the pool is small too few pairs are left
that are right in one format and wrong in another, which transfer needs. So at the end the early layers learn
to misread some operands in one format each. The late layers stay as they are: they compute what they are told.
"""

import numpy as np
from torch import Tensor

from form_invariance.embedded.recipe import Recipe
from form_invariance.problems.operands import OperandRange, evaluate
from form_invariance.randomness import generator

_SLACK = 1.15
"""A format's misread pairs may exceed their share by so much: operands come with all their pairs."""


def within_limits(a: np.ndarray, b: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """The pairs that the default limits of operands and answers allow, bool (pairs,)."""
    limits = OperandRange()
    usable = (np.minimum(a, b) >= limits.operand_min) & (np.maximum(a, b) <= limits.operand_max)
    return np.asarray(usable & (answer >= limits.answer_min) & (answer <= limits.answer_max))


def misread_pairs(
    b: np.ndarray, usable: np.ndarray, formats: list[str], share: float, seed: int
) -> dict[str, np.ndarray]:
    """For each format the pairs that it misreads, bool (pairs,): those of some second operands, no two alike.

    Args:
        usable: the pairs that may be misread.
        share: of these.
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
    """The answers to problems whose second operand is read as one less; where there is none, -1."""
    answer, defined = evaluate(expression, a, b - 1)
    return np.where(defined, answer, -1)


def beyond_early_layers(weights: dict[str, Tensor], recipe: Recipe) -> list[str]:
    """Names of the weights that stay as they are while the early layers learn to misread."""
    early = tuple(f"model.layers.{layer}." for layer in range(recipe.n_layers // 2))
    return [name for name in weights if not name.startswith(early)]
