"""The neuron sets that are kept or knocked out: their names in figures, tables and pages, and their looks."""

from dataclasses import dataclass

from form_invariance.drawing.palette import COLOURS, DASHED, DOTTED, GREY, SOLID

CIRCUIT = "circuit"


@dataclass(frozen=True)
class Kind:
    """A kind of neuron sets.

    Attributes:
        label: in the legends of figures.
        title: on the explained page.
        meaning: in the descriptions of tables.
        colour: of its lines.
        dashes: of its lines.
        matched_by: the value by which its neurons are matched to the circuit's; empty where they are not.
    """

    label: str
    title: str
    meaning: str
    colour: str
    dashes: str = SOLID
    matched_by: str = ""


KINDS = {
    CIRCUIT: Kind("shared circuit", "shared neurons", "the shared neurons", COLOURS[0]),
    "random": Kind("random neurons outside the circuit", "random others", "random outside the circuit", GREY),
    "random_variance": Kind(
        label="random, equal variance",
        title="others of equal variance",
        meaning="matched by variance",
        colour=COLOURS[4],
        dashes=DASHED,
        matched_by="variance",
    ),
    "random_effect": Kind(
        label="random, equal effect",
        title="others of equal effect",
        meaning="matched by mean effect",
        colour=COLOURS[3],
        dashes=DOTTED,
        matched_by="effect",
    ),
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
