"""Ranks, and tables by prompt in the form of `experiment.measurements`, that tests make up."""

import numpy as np

from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.entries import CIRCUITS, DOSE, TASKS, entries_of
from form_invariance.experiment.measurements import METRICS
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.ranked_sets import ranked

SETTING = {"donor": "", "positions": "last", "means": "task", "index": 0, "a": 0, "b": 0}


def ranks_by(values):
    """Ranks by effects (late layers, draws, prompts, m) of each cell; layer 2 is the first, all are candidates."""
    cells = {}
    for cell, effects in values.items():
        layers, width = range(2, 2 + len(effects)), effects.shape[-1]
        everyone = dict.fromkeys(layers, np.arange(width))
        cells[cell] = Effects(dict(zip(layers, effects, strict=True)), everyone, width, "/".join(cell))
    return ranked(cells)


def rows_of(table, **setting):
    """Rows with every column; metrics that are missing are NaN."""
    default = SETTING | dict.fromkeys(METRICS, np.nan)
    return table.assign(**{name: value for name, value in default.items() if name not in table} | setting)


def contrasts_of(table, names, ks, resamples, seed, copying=()):
    """The rows of contrasts, by name, all at the same sizes."""
    measured = Measured(table, copying)
    entries, sizes = entries_of(measured), dict.fromkeys((CIRCUITS, DOSE, TASKS), ks)
    return contrasts_table(measured, sizes, resamples, seed, {name: entries[name] for name in names})


def moved(pairs):
    """Rows of transfer from columns operator, donor, target, k, condition, seed, a, b and the rates of pairs."""
    halves = pairs["condition"].str.extract("^(half_._)?(.*)$")
    others = halves[1].isin(["random", "random_variance", "random_effect", "not_shared", "all_late", "residual"])
    neurons = halves[1].where(others, halves[0].fillna("") + "circuit")
    table = pairs.assign(neurons=neurons, intervention=halves[1].mask(others, "matched"), format=pairs["target"])
    table = table.assign(task=table["operator"], index=table["a"], correct=table["recovered"], means="")
    return rows_of(table.drop(columns=["condition", "recovered", "target"]))
