"""The questions that have a verdict: the contrasts that decide each, and its words in texts and figures."""

from dataclasses import dataclass

from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.values import RATE
from form_invariance.experiment.intervention_kinds import KEEP_ONLY, KNOCKOUT

SERVES = 0.8
"""Other formats' neurons serve a format if they have this share of its own neurons' effect. Copying is spared if
it is spared this share of the loss."""

SMALLEST = 0.05
"""The smallest effect of interest: a *yes* by a smaller difference (probability, rate or Jaccard) is *tiny*."""

NOTHING_OWN = 0.1
"""Formats share no operator-specific neurons if the upper limit of the invariance is below this."""

JACCARD, BEYOND_OPERATOR = "jaccard", "jaccard beyond operator"
"""Metrics of *same*: compared with chance, and with two operators in two formats."""

LAYERS = "layers"
"""Metric of *meet*."""


@dataclass(frozen=True)
class Part:
    """A contrast that decides a question, or that only has a row in the table of verdicts.

    Attributes:
        contrast: its name; empty where the tables of overlaps, or of the residual stream, contain it.
        control: what the second value is.
        of: its metric.
        intervention: its intervention.
        margin: if not 0, the difference is the ratio of the two values minus this.
        decides: whether it must be *yes* for the question to be.
        optional: left out where it is undefined: many models cannot copy, and a run may have one operator.
        drawn: what replaces the question's `drawn`, if not empty.
    """

    contrast: str = ""
    control: str = ""
    of: str = RATE
    intervention: str = ""
    margin: float = 0.0
    decides: bool = True
    optional: bool = False
    drawn: str = ""


@dataclass(frozen=True)
class Question:
    """A question about the shared neurons.

    Attributes:
        label: the question in texts and pages.
        compared: what its differences are.
        drawn: the same, short, for the figure of all models.
        parts: its contrasts, by the name of the metric in the table of verdicts.
    """

    label: str
    compared: str
    drawn: str
    parts: dict[str, Part]

    def drawn_for(self, metric: str) -> str:
        """What is compared by one of the question's metrics, short."""
        return self.parts[metric].drawn or self.drawn


def _ablated(intervention: str) -> dict[str, Part]:
    contrast = "circuit_minus_control_everywhere", "strongest"
    others = {of: Part(*contrast, of, intervention, decides=False) for of in ("faithfulness", "accuracy")}
    return {PRIMARY: Part(*contrast, PRIMARY, intervention), **others}


_OTHERS = "own_minus_other_circuits", "other operators"
_ELSEWHERE = "own_minus_other_beyond_control", "other operators"
_EXCHANGED = "exchanged_minus_own_beyond_control", "own best"
_SHARED = "shared_minus_part_of_best", "random of own best"
_COPIED = "own_minus_copied_of_own", "copying"

QUESTIONS = {
    "same": Question(
        "Same neurons?",
        "Jaccard of the formats, minus chance and minus that of another operator in another format",
        "Jaccard of all formats − by chance",
        {
            JACCARD: Part(control="chance", of=JACCARD),
            BEYOND_OPERATOR: Part(
                control="another operator", of=JACCARD, drawn="Jaccard of two formats − of two operators"
            ),
        },
    ),
    "sufficient": Question(
        "Do they keep more than controls?",
        "keep-only: circuit minus strongest control",
        "probability kept − by best control",
        _ablated(KEEP_ONLY),
    ),
    "necessary": Question(
        "Do they cost more than controls?",
        "knockout: loss by circuit minus by strongest control, at all positions; and at the last token, where "
        "changes of equal norm are controls, too",
        "probability lost − by best control",
        {
            **_ablated(KNOCKOUT),
            f"{PRIMARY} at the last token": Part("circuit_minus_fair_control", "strongest", PRIMARY, KNOCKOUT),
        },
    ),
    "repaired": Question(
        "Repaired by a donor?",
        "transfer: matched donor minus the strongest of no donor, another problem's donor, other neurons",
        "by the same problem − by best baseline",
        {RATE: Part("matched_minus_baseline", "strongest")},
    ),
    "beyond_the_answer": Question(
        "Does a donor carry more than the answer?",
        "transfer: matched donor minus another problem with the same answer, and minus a copied answer",
        "by the same problem − by the same answer",
        {
            RATE: Part("matched_minus_same_answer", "same answer"),
            "rate beyond copied": Part("matched_minus_copied_answer", "copied answer", optional=True),
        },
    ),
    "imposed": Question(
        "Does a donor impose its answer?",
        "transfer to wrong answers: another donor's answer comes out, minus that of permuted donors",
        "another donor's answer − permuted donors",
        {RATE: Part("imposed", "permuted donors")},
    ),
    "interchange": Question(
        "Does a donor override a right answer?",
        "transfer to right answers: another donor's answer comes out, minus that of permuted donors",
        "another donor's answer − permuted donors",
        {
            RATE: Part("interchange", "permuted donors"),
            "beyond copied": Part("interchange_minus_copied", "copied answer", decides=False, optional=True),
        },
    ),
    "exchange": Question(
        "Does one format's circuit serve another?",
        f"loss by knockout, gain by keeping alone: the other formats' best / the own best, minus {SERVES}; and "
        "loss minus that by other operators' best",
        f"others' best / own best − {SERVES}",
        # Knocking out a part of a circuit may cost as much as knocking out all of it, and a part kept alone may do
        # nothing. So loss and gain decide together: the first may be too large, the second too small.
        {
            PRIMARY: Part(
                *_EXCHANGED, PRIMARY, KNOCKOUT, SERVES, drawn=f"lost: others' best / own best − {SERVES}"
            ),
            f"{PRIMARY} kept": Part(
                *_EXCHANGED, PRIMARY, KEEP_ONLY, SERVES, drawn=f"kept: others' best / own best − {SERVES}"
            ),
            f"{PRIMARY} beyond operator": Part(
                "exchanged_minus_other_operators_best",
                "other operators' best",
                PRIMARY,
                KNOCKOUT,
                optional=True,
                drawn="lost: others' best − other operators'",
            ),
            "accuracy": Part(*_EXCHANGED, "accuracy", KNOCKOUT, SERVES, decides=False),
        },
    ),
    "shared": Question(
        "Do shared ones cost more than other best?",
        "knockout: loss by the shared neurons minus by as many random members of the own best in each layer",
        "lost by shared − by as many of the own best",
        {
            PRIMARY: Part(*_SHARED, PRIMARY, KNOCKOUT),
            "accuracy": Part(*_SHARED, "accuracy", KNOCKOUT, decides=False),
        },
    ),
    "computed": Question(
        "Is copying spared?",
        "loss by knockout, of probability and of margin: share of the own loss that copying is spared, beyond "
        f"controls, minus {SERVES}",
        f"spared share of the own loss − {SERVES}",
        {
            PRIMARY: Part(*_COPIED, PRIMARY, KNOCKOUT, SERVES),
            "margin": Part(*_COPIED, "margin", KNOCKOUT, SERVES, drawn=f"spared share of lost margin − {SERVES}"),
            "accuracy": Part(*_COPIED, "accuracy", KNOCKOUT, SERVES, decides=False),
        },
    ),
    "specific": Question(
        "Specific to this operator?",
        "knockout: loss by the operator's neurons minus by another operator's (every choice of one), on its "
        "prompts; "
        "and, beyond controls, minus that on other operators' prompts",
        "lost by own circuit − by other operators'",
        # Some operators are more fragile than others, hence beyond the control.
        {
            PRIMARY: Part(*_OTHERS, PRIMARY, KNOCKOUT),
            f"{PRIMARY} beyond control": Part(*_ELSEWHERE, PRIMARY, KNOCKOUT),
            "accuracy": Part(*_OTHERS, "accuracy", KNOCKOUT, decides=False),
            "accuracy beyond control": Part(*_ELSEWHERE, "accuracy", KNOCKOUT, decides=False),
        },
    ),
    "meet": Question(
        "Do the formats meet in one layer?",
        "exchange of the residual stream: 1.5 layers minus the distance between the first and the last layer in "
        "which two formats meet",
        "1.5 layers − distance of meeting layers",
        {LAYERS: Part(control="distance", of=LAYERS)},
    ),
    "served": Question(
        "Does another format's state do as well?",
        "exchange of the residual stream where the own format's state arrives: outputs that are the donor's, of "
        f"another format, minus {SERVES} of those of the own format",
        f"another format's donor − {SERVES} own format's",
        {RATE: Part(control=f"{SERVES} own format")},
    ),
}
"""By name in tables, in the order of the report."""
