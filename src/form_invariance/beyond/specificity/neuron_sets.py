"""The neurons that are kept and knocked out: circuits, each format's best and parts of these, and controls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from form_invariance.beyond.specificity.table import CONTROLS
from form_invariance.experiment.controls import NOT_DRAWN, Draws, NeuronSet, circuit_set, controls
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    COMMON,
    CONTROL_OF,
    HALVES,
    OTHER_ONLY,
    OWN_BEST,
    OWN_ONLY,
)

PART_DRAWS = 2
"""Draws of each control of a part."""
Values = Mapping[str, np.ndarray]
"""What controls are matched by (variance, effect), (late layers, m), NaN = not available."""


def circuit_sets(
    operator: str,
    circuits: Mapping[int, np.ndarray],
    halves: Mapping[str, Mapping[int, np.ndarray]],
    values: Values,
    draws: Draws,
) -> list[NeuronSet]:
    """An operator's circuits, whole and by halves of the train prompts, and their matched controls.

    A control has as many neurons in the same layers. A circuit without neurons has none, and neither has one with
    too few neurons outside it.

    Args:
        circuits: mask of each k, bool, (late layers, m).
        halves: the same by the name of a half.
    """
    sets = []
    for k, members in circuits.items():
        sets.append(circuit_set(members, k))
        sets += [circuit_set(by_half[k], k, half) for half, by_half in halves.items()]
        if members.any():
            sets += controls(members, k, CONTROLS, values, draws, operator)
    return [_of(operator, some) for some in sets]


def _of(operator: str, some: NeuronSet, tasks: Sequence[str] | None = None) -> NeuronSet:
    return NeuronSet({"operator": operator, **some.label}, some.members, None if tasks is None else tuple(tasks))


def _ranks(effects: Effects) -> np.ndarray:
    """Ranks from 0 of the neurons of a format, (late layers, m)."""
    return np.stack([effects.ranks(layer) for layer in effects.candidates])


def best_sets(
    operator: str,
    name: str,
    formats: Mapping[str, Effects],
    ks: Sequence[int],
    values: Values,
    draws: Draws,
    operators: Sequence[str],
    others: Sequence[str] = (),
) -> Iterator[NeuronSet]:
    """Every format's best neurons for the prompts of one format: whole, in parts, by halves of the train prompts.

    The parts are what the own best have in common with another format's, and what only either of the two has. The
    controls of a part contain neither format's best. Sets without neurons are left out.

    Args:
        name: the format of the prompts.
        formats: the operator's effects in every format.
        operators: all of them; a format's best are also tried on the prompts of other operators.
        others: further tasks on which the best of the format of the prompts are tried.
    """
    ranks = {form: _ranks(effects) for form, effects in formats.items()}
    halves = {
        half + BEST_IN + form: (form, _ranks(effects))
        for form, whole in formats.items()
        for half, effects in zip(HALVES, whole.halves(), strict=True)
    }
    for k in ks:
        masks = {form: ranked < k for form, ranked in ranks.items()}
        own = masks[name]
        found = [
            (BEST_IN + form, mask, [*operators, *(others if form == name else ())]) for form, mask in masks.items()
        ]
        found += [
            (half, ranked < k, [operator, *others] if form == name else [*operators])
            for half, (form, ranked) in halves.items()
        ]
        matched = [(OWN_BEST, own, own, draws)]
        for form, mask in masks.items():
            if form != name:
                apart = [(OWN_ONLY + form, own & ~mask), (OTHER_ONLY + form, mask & ~own)]
                found += [(kind, part, [operator]) for kind, part in [(COMMON + form, own & mask), *apart]]
                matched += [(kind, part, own | mask, replace(draws, matched=PART_DRAWS)) for kind, part in apart]
        for kind, mask, tasks in found:
            if mask.any():
                yield _of(operator, NeuronSet({"neurons": kind, "k": k, "seed": NOT_DRAWN}, mask), tasks)
        for kind, mask, avoided, drawn in matched:
            outside = {key: np.where(avoided & ~mask, np.nan, some) for key, some in values.items()}
            for control in controls(mask, k, CONTROLS if mask.any() else (), outside, drawn, operator, name, kind):
                label = {**control.label, "neurons": control.label["neurons"] + CONTROL_OF + kind}
                yield _of(operator, NeuronSet(label, control.members), [operator])
