"""The interventions on the neurons of a set: what is ablated, and which verdict it decides."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Intervention:
    """An intervention.

    Attributes:
        question: its key in `questions.QUESTIONS`; empty where its contrasts decide no verdict.
        ablated: which neurons take their means, (..., late layers, m), from the sets' masks of equal shape.
        lost: whether metrics are reported as losses, unmodified minus ablated, so that larger is stronger.
    """

    question: str
    ablated: Callable[[np.ndarray], np.ndarray]
    lost: bool


INTERVENED = {
    "keep_only": Intervention(
        question="sufficient",
        ablated=np.logical_not,
        lost=False,
    ),
    "knockout": Intervention(
        question="necessary",
        ablated=np.asarray,
        lost=True,
    ),
}
"""By the name in tables and of the figure."""

ASKED = {name: one.question for name, one in INTERVENED.items() if one.question}
"""The question that an intervention decides."""
