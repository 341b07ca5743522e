"""How the kinds of neuron sets look in figures, and their titles on the explained page, by their names."""

from form_invariance.drawing.lines import DASHED, DOTTED, Look
from form_invariance.drawing.style import COLOURS, GREY

NEURON_SETS = {
    "circuit": Look(COLOURS[0], "o", width=2.0, label="shared circuit"),
    "random": Look(GREY, label="random neurons outside the circuit"),
    "random_variance": Look(COLOURS[4], dashes=DASHED, label="random, equal variance"),
    "random_effect": Look(COLOURS[3], dashes=DOTTED, label="random, equal effect"),
}
TITLES = {
    "circuit": "shared neurons",
    "random": "random others",
    "random_variance": "others of equal variance",
    "random_effect": "others of equal effect",
}
