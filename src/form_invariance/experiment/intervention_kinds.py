"""The interventions on the neurons of a set: what is ablated, how it is reported, and which verdict it decides."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Intervention:
    """An intervention.

    Attributes:
        label: in the titles of figures.
        picture: on the explained page.
        question: its key in `questions.QUESTIONS`; empty where its contrasts decide no verdict.
        opening: of that answer, with a place for k; the metrics follow.
        compared: the question to its strongest control.
        ablated: which neurons take their means, (..., late layers, m), from the sets' masks of equal shape.
        lost: whether metrics are reported as losses, unmodified minus ablated, so that larger is stronger.
    """

    label: str
    picture: str
    question: str
    opening: str
    compared: str
    ablated: Callable[[np.ndarray], np.ndarray]
    lost: bool


INTERVENED = {
    "keep_only": Intervention(
        label="keep-only",
        picture="only these neurons work",
        question="sufficient",
        opening="With every other late neuron at its mean, the shared neurons (k = {k}) keep",
        compared="Do they keep more than the strongest control?",
        ablated=np.logical_not,
        lost=False,
    ),
    "knockout": Intervention(
        label="knockout",
        picture="these neurons are knocked out",
        question="necessary",
        opening="With the shared neurons (k = {k}) at their means, the model loses",
        compared="Does it lose more than with the strongest control?",
        ablated=np.asarray,
        lost=True,
    ),
}
"""By the name in tables and of the figure."""

ASKED = {name: one.question for name, one in INTERVENED.items() if one.question}
"""The question that an intervention decides."""
