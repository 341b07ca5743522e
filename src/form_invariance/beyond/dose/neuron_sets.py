"""The neurons that are knocked out and kept alone on one cell's prompts, at every size k (method, section 13)."""

from collections.abc import Iterator, Mapping

import numpy as np

from form_invariance.experiment.controls import Draws, NeuronSet, controls, draw_among
from form_invariance.experiment.neuron_sets import (
    ALL_LATE,
    BEST_NOT_SHARED,
    CONTROL_OF,
    EQUAL_NORM,
    LAYERS_OF_BEST,
    MATCHED,
    OWN_BEST,
    PART_OF_BEST,
)
from form_invariance.experiment.ranked_sets import Ranked, best_of, circuits, ranked_set

GROUPS = 4
"""The number of groups of late layers; the own best of each group are also knocked out alone."""


def ranked_sets(ranked: Ranked, k: int, format: str, operator: str) -> Iterator[NeuronSet]:
    """Circuits of all operators; the operator's best in every format; other operators' best in the other formats.

    Each set is also ranked by either half of the train prompts.
    """
    yield from circuits(ranked, k)
    yield from best_of(
        ranked, k, ((name, of) for name, of in ranked.candidates if of == operator or name != format)
    )


def parts_of_best(ranked: Ranked, k: int, format: str, operator: str, draws: Draws) -> Iterator[NeuronSet]:
    """Parts of the own best: as many at random as are shared, those not shared, and those of each group of layers.

    Also all late neurons, whose knockout is the largest dose.
    """
    best, shared = ranked.best(k, format, operator), ranked.shared(k, operator)
    for draw in range(draws.matched):
        part = draw_among(best, shared, draws.seed, operator, format, PART_OF_BEST, k, draw)
        assert part is not None, "the shared are among the best"
        yield ranked_set(operator, PART_OF_BEST, k, part, draw)
    yield ranked_set(operator, BEST_NOT_SHARED, k, best & ~shared)
    layers = np.arange(len(best))
    for group in np.array_split(layers, min(GROUPS, len(layers))):
        name = f"{LAYERS_OF_BEST}{ranked.first + group[0]}_to_{ranked.first + group[-1]}"
        yield ranked_set(operator, name, k, best & np.isin(layers, group)[:, None])
    yield ranked_set(operator, ALL_LATE, k, np.ones_like(best))


def best_controls(
    ranked: Ranked, k: int, format: str, operator: str, values: Mapping[str, np.ndarray], draws: Draws
) -> Iterator[NeuronSet]:
    """The matched controls of the own best; `values` as in `controls`."""
    best = ranked.best(k, format, operator)
    for control in controls(best, k, MATCHED if best.any() else (), values, draws, operator, format, OWN_BEST):
        name = str(control.label["neurons"]) + CONTROL_OF + OWN_BEST
        yield ranked_set(operator, name, k, control.members, control.label["seed"])


def equal_norm_masks(
    ranked: Ranked, members: np.ndarray, k: int, format: str, operator: str, draws: Draws
) -> list[np.ndarray]:
    """Draws of candidates outside a set and the k best, as many in each layer as the set has; none if too few."""
    outside = ranked.candidates[format, operator] & ~ranked.best(k, format, operator) & ~members
    drawn = [
        draw_among(outside, members, draws.seed, operator, format, EQUAL_NORM, k, draw)
        for draw in range(draws.matched)
    ]
    return [mask for mask in drawn if mask is not None]
