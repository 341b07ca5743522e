"""Names in the tables of transfer."""

from form_invariance.experiment.neuron_sets import ALL_LATE, CONTROLS, NOT_SHARED

RESIDUAL = "residual"

OTHER_NEURONS = (*CONTROLS, NOT_SHARED)
"""Conditions that transfer, from the matched donor, as many neurons of each layer outside the circuit."""

NO_DONOR = "no_donor"
"""The condition in which the circuit's neurons take their mean over prompts of the target's template."""

CEILINGS = (ALL_LATE, RESIDUAL)
"""Conditions that transfer all that a matched donor has at the last token of the late layers."""

COPIED_ANSWER, COPIED_OTHER = "copied_answer", "copied_other"
"""Conditions whose donors copied their answer."""

BY_HALVES = ("matched", "mismatched", "same_answer", "interchange", COPIED_ANSWER, COPIED_OTHER)
"""Conditions that are repeated with the circuit by either half of the train prompts."""

NONE = -1
"""The value of `k` and `seed` in rows that have none."""
