"""Templates as tokens, and the pools of pairs for training and testing the embedded models.

Transfer needs pairs that are right in one format and wrong in another. Formats that share their neurons also share
their errors, so a small pool contains too few such pairs. Therefore the early layers learn, in the last steps of
training, to read some second operands as one less, different ones in each format. The late layers do not change.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from form_invariance.json_yaml import read_yaml
from form_invariance.problems.operands import OperandRange, evaluate, operand_pool
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.templates import render
from form_invariance.randomness import generator

TRAINED = OperandRange(operand_min=0, operand_max=999, answer_min=0, answer_max=999)

_SLACK = 1.15
"""Limit of a format's misread pairs relative to its share, because an operand is misread in all its pairs."""


@dataclass(frozen=True)
class Templates:
    """Expression of each operator; canonical template and variants of each format and operator."""

    expressions: dict[str, str]
    formats: dict[str, dict[str, list[str]]]

    def all(self) -> list[str]:
        """Every template."""
        return [
            template
            for by_operator in self.formats.values()
            for cell_templates in by_operator.values()
            for template in cell_templates
        ]


def read_templates(config: Path) -> Templates:
    """Operators and templates of a configuration file."""
    content = read_yaml(config)
    formats = {
        name: {
            operator: [template, *settings.get("variants", {}).get(operator, [])]
            for operator, template in settings["templates"].items()
        }
        for name, settings in content["formats"].items()
    }
    return Templates(content["operators"], formats)


class TokenTemplate:
    """A template as tokens. Operands are single tokens, so prompts are made by filling in these tokens."""

    def __init__(self, tokenizer: PromptTokenizer, template: str) -> None:
        """Tokenize a prompt once, and find its operands."""
        a, b = 611, 823
        self.tokens = tokenizer.encode_batch([render(template, a, b)])[0]  # (T,), BOS first
        self.place_a, self.place_b = (
            self.tokens.tolist().index(token) for token in tokenizer.number_tokens([a, b])
        )

    def fill(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Token ids (n, T) for operands given as token ids (n,)."""
        rows = np.tile(self.tokens, (len(a), 1))
        rows[:, self.place_a], rows[:, self.place_b] = a, b
        return rows


@dataclass(frozen=True)
class Pool:
    """All pairs of one operator, and their use in training."""

    a: np.ndarray
    b: np.ndarray
    answer: np.ndarray
    train: np.ndarray  # positions
    held_out: np.ndarray  # positions
    excluded: dict[str, np.ndarray]  # format: bool by position, not seen in training in this format
    misreadable: np.ndarray  # bool by position
    misread: dict[str, np.ndarray]  # format: bool by position, trained with misread_answer in the last steps
    misread_answer: np.ndarray


def make_pool(
    expression: str, operator: str, formats: list[str], held_out: float, left_out: float, misread: float, seed: int
) -> Pool:
    """The pool of an operator.

    Args:
        held_out: share of the pairs that no format sees in training.
        left_out: share of the pairs that each format does not see in training; they differ between formats.
        misread: share of the misreadable pairs that each format misreads; they differ between formats.
    """
    table = operand_pool(expression, TRAINED)
    order = generator(seed, "held-out", operator).permutation(len(table))
    cut = int(len(table) * held_out)
    excluded = {
        name: generator(seed, "left-out", operator, name).random(len(table)) < left_out for name in formats
    }
    a, b, answer = (table[column].to_numpy() for column in ("a", "b", "answer"))
    wrong, defined = evaluate(expression, a, b - 1)
    limits = OperandRange()
    misreadable = (
        defined
        & (np.minimum(a, b) >= limits.operand_min)
        & (np.maximum(a, b) <= limits.operand_max)
        & (answer >= limits.answer_min)
        & (answer <= limits.answer_max)
        & (wrong >= TRAINED.answer_min)
        & (wrong <= TRAINED.answer_max)
    )
    misread_pairs = _misread_pairs(b, misreadable, formats, misread, seed)
    return Pool(a, b, answer, order[cut:], order[:cut], excluded, misreadable, misread_pairs, wrong)


def _misread_pairs(
    b: np.ndarray, usable: np.ndarray, formats: list[str], share: float, seed: int
) -> dict[str, np.ndarray]:
    """The pairs that each format misreads, bool (pairs,): all pairs of some second operands.

    No operand is misread in two formats.

    Args:
        usable: the pairs that may be misread.
        share: share of these pairs that each format misreads.
    """
    pairs_of = dict(zip(*(column.tolist() for column in np.unique(b[usable], return_counts=True)), strict=True))
    operands = generator(seed, "misread").permutation([*pairs_of]).tolist()
    target_size = share * usable.sum()
    result = {}
    for name in formats:
        misread_operands: list[int] = []
        size = 0
        for operand in operands:
            if size < target_size and size + pairs_of[operand] <= _SLACK * target_size:
                misread_operands.append(operand)
                size += pairs_of[operand]
        operands = [operand for operand in operands if operand not in misread_operands]
        result[name] = usable & np.isin(b, misread_operands)
    return result
