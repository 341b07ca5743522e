"""The neuron sets that are kept or knocked out, by their names in tables (looks: `drawing.neuron_sets`)."""

from dataclasses import dataclass

CIRCUIT = "circuit"


@dataclass(frozen=True)
class Kind:
    """A kind of neuron sets.

    Attributes:
        meaning: its description in tables.
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
"""Prefix of a format's name: the k best neurons of each layer in this format."""

HALVES = ("half_1_", "half_2_")
"""Prefixes of the name of a ranked set, or of a condition of transfer: half of the train prompts rank the set."""
MEANS_HALVES = ("means_1_", "means_2_")
"""Prefixes of the name of a ranked set: its ablated neurons take means over one half of the means' prompts."""

OWN_BEST, CONTROL_OF = "own_best", "_of_"
"""The best neurons in the format of the prompts; and, in CONTROL_of_SET, what separates a control and its set."""

CONTROLS = {name: kind for name, kind in KINDS.items() if name != CIRCUIT}
MATCHED = {name: kind for name, kind in CONTROLS.items() if kind.matched_by}
"""The controls that are matched to the circuit by a value (`controls.matching_values`)."""

EQUAL_NORM, RANDOM_DIRECTION = "equal_norm", "random_direction"
"""Controls that change the residual stream as much as the set does, for each prompt and layer: equally many other
candidates, scaled; and one random direction for all prompts."""
FAIR = (*MATCHED, EQUAL_NORM, RANDOM_DIRECTION)
"""The controls of a knockout at the last token."""

PART_OF_BEST = "random_of_own_best"
"""Random members of the own best; each layer has the number of its shared neurons."""
BEST_NOT_SHARED = "own_best_not_shared"
"""The own best without the shared neurons."""
LAYERS_OF_BEST = "own_best_in_layers_"
"""Prefix of FIRST_to_LAST: the own best neurons of these layers alone."""
ALL_LATE = "all_late"
"""All neurons of the late layers."""

NOT_SHARED = "not_shared"
"""The donor's best neurons outside the circuit."""


def described(*names: str) -> str:
    """Kinds with their meanings, for the description of a column."""
    return ", ".join(f"{name} ({KINDS[name].meaning})" for name in names)
