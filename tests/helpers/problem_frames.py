"""Hand-made frames of problems, with the columns that a census has."""

from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic, stated

WHOLE = Arithmetic("a + b", OperandRange())


def complete_problems(frame, tokenizer=None):
    """Add the columns of whole answers that are right; without a tokenizer an answer's token is the answer."""
    answers = frame["answer"].to_numpy()
    return stated(WHOLE, frame).assign(
        whole_correct=True, answer_token=answers if tokenizer is None else tokenizer.number_tokens(answers)
    )
