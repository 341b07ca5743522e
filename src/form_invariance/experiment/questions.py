"""The questions that have a verdict: their names in texts, figures and pages, and what each compares."""

from dataclasses import dataclass

SERVES = 0.8
"""Other formats' neurons serve a format if they do this share of what its own do; a circuit is only for what is
computed if copying is spared this share of its loss."""

SMALLEST = 0.05
"""The smallest effect of interest: a difference of probabilities, rates or Jaccards that is surely not zero and
smaller than this is *tiny*."""

NOTHING_OWN = 0.1
"""Formats share nothing of an operator if their operator-specific invariance is surely below this."""


@dataclass(frozen=True)
class Question:
    """A question about the shared neurons.

    Attributes:
        label: in texts and pages.
        compared: what its difference is.
        drawn: the same, short, in the figure of all models.
        margin: what is subtracted from the ratio of the two values, where that is the difference.
        beyond_operator: as `drawn`, for a metric that compares with other operators.
    """

    label: str
    compared: str
    drawn: str
    margin: float = 0.0
    beyond_operator: str = ""

    def margin_of(self, metric: str) -> float:
        """The margin of one of the question's metrics: 0 where it is a difference."""
        return 0.0 if metric.endswith(DIFFERENCE) else self.margin

    def drawn_for(self, metric: str) -> str:
        """What is compared by one of the question's metrics, short."""
        return self.beyond_operator if metric.endswith(DIFFERENCE) else self.drawn


DIFFERENCE = "beyond operator"
"""The end of a metric's name that is a difference, whatever the question."""

QUESTIONS = {
    "same": Question(
        "Same neurons?",
        "Jaccard of the formats, minus chance and minus that of another operator in another format",
        "Jaccard − by chance",
        beyond_operator="Jaccard of two formats − of two operators",
    ),
    "sufficient": Question(
        "Do they keep more than controls?",
        "keep-only: circuit minus strongest control",
        "probability kept − by best control",
    ),
    "necessary": Question(
        "Do they cost more than controls?",
        "knockout: loss by circuit minus by strongest control",
        "probability lost − by best control",
    ),
    "repaired": Question(
        "Repaired by a donor?",
        "transfer: matched donor minus the strongest of no donor, another problem's donor, other neurons",
        "by the same problem − by best baseline",
    ),
    "beyond_the_answer": Question(
        "Does a donor carry more than the answer?",
        "transfer: matched donor minus another problem with the same answer, and minus a copied answer",
        "by the same problem − by the same answer",
    ),
    "imposed": Question(
        "Does a donor impose its answer?",
        "transfer to wrong answers: another donor's answer comes out, minus that of permuted donors",
        "another donor's answer − permuted donors",
    ),
    "interchange": Question(
        "Does a donor override a right answer?",
        "transfer to right answers: another donor's answer comes out, minus that of permuted donors",
        "another donor's answer − permuted donors",
    ),
    "exchange": Question(
        "Does one format's circuit serve another?",
        f"loss by knockout, gain by keeping alone: the other formats' best / the own best, minus {SERVES}; and "
        "loss minus that by other operators' best",
        f"others' best / own best − {SERVES}",
        SERVES,
        "loss: others' best − other operators'",
    ),
    "computed": Question(
        "Is copying spared?",
        f"loss by knockout: share of the own loss that copying is spared, beyond controls, minus {SERVES}",
        f"spared share of the own loss − {SERVES}",
        SERVES,
    ),
    "specific": Question(
        "Specific to this operator?",
        "knockout: loss by the operator's neurons minus by another operator's (the strongest), on its prompts; "
        "and, beyond controls, minus that on other operators' prompts",
        "lost by own circuit − by other operators'",
    ),
    "meet": Question(
        "Do the formats meet in one layer?",
        "exchange of the residual stream: 1.5 layers minus the distance between the first and the last layer in "
        "which two formats meet",
        "1.5 layers − distance of meeting layers",
    ),
    "served": Question(
        "Does another format's state do as well?",
        "exchange of the residual stream where the own format's state arrives: outputs that are the donor's, of "
        f"another format, minus {SERVES} of those of the own format",
        f"another format's donor − {SERVES} own format's",
    ),
}
"""By name in tables, in the order of the report."""
