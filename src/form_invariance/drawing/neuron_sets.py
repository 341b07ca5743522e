"""How the kinds of neuron sets look in figures and on pages, by their names in tables."""

from dataclasses import dataclass

from form_invariance.drawing.palette import COLOURS, DASHED, DOTTED, GREY, SOLID


@dataclass(frozen=True)
class NeuronSetLook:
    """The look of a kind of neuron sets.

    Attributes:
        label: in the legends of figures.
        title: on the explained page.
        colour: of its lines.
        dashes: of its lines.
    """

    label: str
    title: str
    colour: str
    dashes: str = SOLID


NEURON_SETS = {
    "circuit": NeuronSetLook("shared circuit", "shared neurons", COLOURS[0]),
    "random": NeuronSetLook("random neurons outside the circuit", "random others", GREY),
    "random_variance": NeuronSetLook("random, equal variance", "others of equal variance", COLOURS[4], DASHED),
    "random_effect": NeuronSetLook("random, equal effect", "others of equal effect", COLOURS[3], DOTTED),
}
