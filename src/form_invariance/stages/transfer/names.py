"""Names that the tables of transfer share with what makes and reads them."""

from form_invariance.experiment.neuron_sets import ALL_LATE, CONTROLS, NOT_SHARED

RESIDUAL = "residual"

OTHER_NEURONS = (*CONTROLS, NOT_SHARED)
"""Conditions with other neurons than the circuit's, as many in each layer, and the matched donor."""

NO_DONOR = "no_donor"
"""The circuit's neurons take their mean over prompts of the target's template."""

CEILINGS = (ALL_LATE, RESIDUAL)
"""Conditions with all that a matched donor can give at the last token of the late layers."""

COPIED_ANSWER, COPIED_OTHER = "copied_answer", "copied_other"
"""Conditions whose donors have copied their answer, not computed it."""

BY_HALVES = ("matched", "mismatched", "same_answer", "interchange", COPIED_ANSWER, COPIED_OTHER)
"""Conditions that are repeated with the circuits by either half of the train prompts."""

NONE = -1
"""The value of `k` and `seed` in rows that have none."""
