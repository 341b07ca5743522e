"""The questions that have a verdict: their names in texts, figures and pages, and what each compares."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question about the shared neurons.

    Attributes:
        label: in texts and pages.
        compared: what its difference is.
        figure: the figure in the report's section that answers it at length.
    """

    label: str
    compared: str
    figure: str


QUESTIONS = {
    "same": Question(
        "Same neurons?",
        "Jaccard of the formats, minus chance and minus that of another operator in another format",
        "overlap",
    ),
    "sufficient": Question(
        "Do they keep more than controls?",
        "keep-only: circuit minus strongest control",
        "keep_only",
    ),
    "necessary": Question(
        "Do they cost more than controls?",
        "knockout: loss by circuit minus by strongest control",
        "knockout",
    ),
    "repaired": Question(
        "Repaired by a donor?",
        "transfer: matched donor minus the strongest of no donor, another problem's donor, other neurons",
        "transfer_contrasts",
    ),
    "beyond_the_answer": Question(
        "More than the answer?",
        "transfer: matched donor minus donor with the same answer",
        "transfer_contrasts",
    ),
    "imposed": Question(
        "Does a donor impose its answer?",
        "transfer to wrong answers: another donor's answer comes out, minus that of permuted donors",
        "transfer_contrasts",
    ),
    "interchange": Question(
        "Also where both are right?",
        "transfer to right answers: another donor's answer comes out, minus that of permuted donors",
        "transfer_contrasts",
    ),
    "exchange": Question(
        "Does one format's circuit serve another?",
        "knockout: loss by the other formats' best neurons, as a share of that by the own best, minus 0.8",
        "exchange",
    ),
    "specific": Question(
        "Of this operator?",
        "knockout: loss by the operator's neurons minus by the other operators', on its prompts",
        "specificity",
    ),
}
"""By name in tables, in the order of the report."""
