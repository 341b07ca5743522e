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

CONTROLS = {name: kind for name, kind in KINDS.items() if name != CIRCUIT}
MATCHED = {name: kind for name, kind in CONTROLS.items() if kind.matched_by in ("variance", "effect")}
"""The controls of transfer and of the tests on other tasks, which know these values."""


def described(*names: str) -> str:
    """Kinds with their meanings, for the description of a column."""
    return ", ".join(f"{name} ({KINDS[name].meaning})" for name in names)
