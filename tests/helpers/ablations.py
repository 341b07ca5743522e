"""The engine's ablation at the last token, with the arguments that its ablation at all positions has."""

from form_invariance.experiment.intervene import read_replaced


def at_last_token(model, part, masks, means, center):
    """Readout (sets, B) of the batch `part` with the neurons in masks at their means."""
    given = means.last_token(part.last_token.first)
    return read_replaced(model, part.last_token, part.answers, masks, given, center)
