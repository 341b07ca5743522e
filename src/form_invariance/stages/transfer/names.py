"""Names that the tables of transfer share with what makes and reads them."""

CIRCUIT, ALL_LATE, RESIDUAL = "circuit", "all_late", "residual"

CONTROLS = ("random", "random_variance", "random_effect", "not_shared")
"""Conditions with other neurons than the circuit's, as many in each layer, and the matched donor."""

BANDS = ("below_onset", "from_onset")
"""The circuit's layers below the onset of the target's probe, and from it on."""

CEILINGS = (ALL_LATE, RESIDUAL)
"""Conditions with all that a matched donor can give at the last token of the late layers."""

NONE = -1
"""The value of `k` and `seed` in rows that have none."""

EVERY = "all"
"""Operator and direction of the contrasts over all cells."""
