"""Direct effects of a cell, by their factors, and as a file together with the texts of the answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

KIND = "direct_effects"
_TEXTS = "answer_texts"
TOP = 5
"""Answers of the model itself that are kept of every problem."""


@dataclass(frozen=True)
class DirectEffects:
    """Direct effects of n neurons on A answers in P problems, as the factors of which they are products.

    Attributes:
        neurons: layer and number, (n, 2) int64, in ascending order.
        answers: token ids, (A,) int64.
        written: units that each neuron writes at the last token, (P, n) float32: its activation, over the root
            mean square of the layer's output where the architecture normalises that.
        unit_logits: what one unit adds to each answer's logit, centred over the vocabulary, (n, A) float32.
        final_scale: of the final norm at the last token, (P,) float32.
        unit_inputs: what one unit of a neuron (row) adds to the gate of another in a later layer (column), (n, n)
            float32; 0 in the same layer and below. Of a layer without gates, to the input of the neuron.
        input_scale: of the norm before the layer of each neuron, (P, n) float32.
        top: the answers with the model's highest logits, as positions in `answers`, (P, TOP or A) int64.
        top_logits: their logits, centred over the vocabulary, float32.
        log_total: log of the sum of exp over all tokens' logits, centred as well, (P,) float32. A logit minus it
            is a log-probability.
        predicted: the model's most probable next token of all, (P,) int64.
    """

    neurons: np.ndarray
    answers: np.ndarray
    written: np.ndarray
    unit_logits: np.ndarray
    final_scale: np.ndarray
    unit_inputs: np.ndarray
    input_scale: np.ndarray
    top: np.ndarray
    top_logits: np.ndarray
    log_total: np.ndarray
    predicted: np.ndarray


def summed(effects: DirectEffects, on: np.ndarray | None = None) -> np.ndarray:
    """The summed direct effect of some neurons on every answer's logit, (P, A).

    Args:
        on: which neurons count, bool (n,); default: all.
    """
    written = effects.written if on is None else effects.written * on
    return np.asarray((written * effects.final_scale[:, None]) @ effects.unit_logits)


def to_arrays(effects: DirectEffects, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Named arrays for a file; `from_arrays` reads them back.

    Args:
        texts: of the answers, A; as bytes of JSON in UTF-8.
    """
    return {**vars(effects), _TEXTS: np.frombuffer(json.dumps(list(texts)).encode(), dtype=np.uint8)}


def from_arrays(arrays: dict[str, Any]) -> tuple[DirectEffects, list[str]]:
    """The direct effects of a file's arrays, and the texts of the answers."""
    texts = json.loads(arrays[_TEXTS].tobytes())
    return DirectEffects(**{name: array for name, array in arrays.items() if name != _TEXTS}), texts
