"""What is the verdict?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.experiment.answers import FIXED, Answer
from form_invariance.experiment.contrasts.questions import QUESTIONS, SMALLEST
from form_invariance.experiment.contrasts.verdicts import FEWEST_PAIRS
from form_invariance.verdicts.summary.lines import by_operator, said, verdicts_at
from form_invariance.verdicts.summary.table import VERDICTS

QUESTION = "What is the verdict?"
INPUTS = {"verdicts": VERDICTS}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Every question in a word, by the contrast that decides it."""
    table = verdicts_at(tables["verdicts"], k)
    verdicts = [said(row) for row in table.to_dict("records")]
    labels = [QUESTIONS[name].label for name in table["question"]]
    sizes = [f" (at k = {at_k})" if at_k != k else "" for at_k in table["at_k"]]
    words = " ".join(
        f"{label} {word.capitalize()}{size}." for label, word, size in zip(labels, verdicts, sizes, strict=True)
    )
    operators = [
        by_operator(tables["verdicts"], k, question, metric)
        for question, metric in zip(table["question"], table["metric"], strict=True)
    ]
    compared = [QUESTIONS[name].compared for name in table["question"]]
    shown = table.assign(question=compared, operator=operators, verdict=verdicts)
    sentence = (
        f"At k = {k}: {words} Each is a difference from the strongest control with its 95 % interval ({FIXED}): "
        "yes if the interval is above zero, no if it is below, undecided if it contains zero or nearly does "
        "(within two Monte Carlo errors of a limit), mixed if operators disagree, tiny if the difference is below "
        f"{SMALLEST}, undefined if no neuron is shared or fewer than {FEWEST_PAIRS} pairs can be tried. Ablations "
        "are judged by the probability of the answer, other questions by their least favourable null."
    )
    return [Answer(QUESTION, sentence, shown, ())]
