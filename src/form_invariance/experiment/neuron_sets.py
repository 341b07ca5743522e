"""The neuron sets that are kept or knocked out, by their names in tables (looks: `drawing.neuron_sets`)."""

from dataclasses import dataclass

CIRCUIT = "circuit"


@dataclass(frozen=True)
class Kind:
    """A kind of neuron sets.

    Attributes:
        meaning: in the descriptions of tables.
        matched_by: the value by which its neurons are matched to the circuit's; empty where they are not.
    """

    meaning: str
    matched_by: str = ""


KINDS = {
    CIRCUIT: Kind("the shared neurons"),
    "random": Kind("random outside the circuit"),
    "random_variance": Kind("matched by variance", matched_by="variance"),
    "random_effect": Kind("matched by mean effect", matched_by="effect"),
}
"""By the name in tables. Every kind but the circuit is a control, with as many neurons in each layer."""

BEST_IN = "best_in_"
"""Before a format's name: the best neurons in this format, as many in each layer as the circuit has."""

HALVES = ("half_1_", "half_2_")
"""Before the name of ranked neurons, or of what is done to them: ranked anew by one half of the train prompts."""
MEANS_HALVES = ("means_1_", "means_2_")
"""Before the name of ranked neurons: ablated to their means over one half of the prompts of the means."""

OWN_BEST, CONTROL_OF = "own_best", "_of_"
"""The best neurons in the format of the prompts, and what comes between a control and what it is a control of."""

CONTROLS = {name: kind for name, kind in KINDS.items() if name != CIRCUIT}
MATCHED = {name: kind for name, kind in CONTROLS.items() if kind.matched_by}
"""The controls that are like the circuit in a value (`controls.matching_values`)."""

EQUAL_NORM, RANDOM_DIRECTION = "equal_norm", "random_direction"
"""Controls whose change of the residual stream is as large as the set's, for each prompt and layer: as many other
candidates, scaled; and one random direction for all prompts."""
FAIR = (*MATCHED, EQUAL_NORM, RANDOM_DIRECTION)
"""The controls of a knockout at the last token."""

PART_OF_BEST, BEST_NOT_SHARED = "random_of_own_best", "own_best_not_shared"
"""Random members of the own best, as many in each layer as are shared; and the own best without the shared."""
LAYERS_OF_BEST, ALL_LATE = "own_best_in_layers_", "all_late"
"""Before FIRST_to_LAST: the own best of some layers alone; and all neurons of the late layers."""

NOT_SHARED = "not_shared"
"""The donor's best neurons outside the circuit."""


def described(*names: str) -> str:
    """Kinds with their meanings, for the description of a column."""
    return ", ".join(f"{name} ({KINDS[name].meaning})" for name in names)
