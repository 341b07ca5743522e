"""The rows of one contrast from the values by prompt of its cells, with other noises by plain loops."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from form_invariance.experiment.contrasts.engine import (
    Value,
    compare,
    described,
    over_cells,
    resampled,
    resampling,
    verdict,
)
from form_invariance.tables.columns import ALL


def pair(first, second, problems, resamples, seed, control="", draws=None, bounded=True):
    """Two values of each prompt, (P,); a prompt without both is left out, if any has both."""
    values = np.stack([first, second]).astype(float)
    both = ~np.isnan(values).any(0)
    used = np.flatnonzero(both if both.any() else ~np.isnan(values[0]))
    kept = [problems[place] for place in used]
    one, other = resampled(values[:, used], resampling(kept, resamples, seed)).T
    problems = kept if both.any() else []
    return compare(Value(one, problems, bounded=bounded), Value(other, problems, draws or {}, control, bounded))


def check_rows(table, cells, resamples, seed, bounded=True):
    """`check_pairs` from the values of each prompt.

    `cells` has by (format or direction, operator): (first, second, problems, control, draws, halves). Halves are
    the mean differences by either half of the train prompts; test_contrasts.py tests the noise of draws.
    """
    pairs = {}
    for cell, (*given, halves) in cells.items():
        known = {"rankings": np.array([halves, [0, 0]]), "means": np.full((2, 2), np.nan)}
        pairs[cell] = replace(pair(*given[:3], resamples, seed, *given[3:], bounded), halves=known)
    check_pairs(table, pairs)


def noise_of(source, pairs, name, operator, value=np.subtract):
    """Half of the 95 % interval that other rankings or means give to a value of a row, by loops.

    The pairs are by (format or direction, operator), or by these and a rival.
    """
    errors = {}
    for (form, of, *rival), one in pairs.items():
        if one.defined and not np.isnan(one.halves[source]).any():
            alike = of, *rival, ALL if name == ALL else form
            errors.setdefault(alike, []).append(np.subtract(*value(*one.halves[source])) / 2)
    operators = len({of for of, *_ in errors})
    if not operators:
        return np.nan
    square = np.mean([np.mean(own) ** 2 for own in errors.values()]) / (operators if operator == ALL else 1)
    return t.ppf(0.975, operators) * square**0.5


def members_of(pairs, name, operator):
    """What belongs to the cells of a row."""
    return [one for cell, one in pairs.items() if name in (ALL, cell[0]) and operator in (ALL, cell[1])]


def check_pairs(table, pairs):
    """A table of one contrast has a row for each cell, for the cells of each operator and for all, and no other.

    The pairs are by (format or direction, operator).
    """
    found = {(row["format"], row["operator"]): row for row in table.to_dict("records")}
    assert len(found) == len(table)
    assert found.keys() == {*pairs, *((ALL, operator) for _, operator in pairs), (ALL, ALL)}
    for name, operator in found:
        members = members_of(pairs, name, operator)
        row = described(members[0] if len(members) == 1 else over_cells(members))
        if row["cells"]:
            noises = {source: noise_of(source, pairs, name, operator) for source in ("rankings", "means")}
            row["ranking_noise"], row["means_noise"] = noises.values()
            for side, limit in ((-1, "low"), (1, "high")):
                beyond = np.hypot(
                    row[limit] - row["difference"], np.sqrt(np.nansum(np.square([*noises.values()])))
                )
                row[limit] = row["difference"] + side * beyond
            known = [source for source, noise in noises.items() if noise >= 0]
            drawn = ["draws"] if any(one.draws for one in members if one.defined) else []
            row["limits"] = ", ".join(["problems", *drawn, *known]) if row["low"] <= row["high"] else ""
            row["verdict"] = verdict(row["low"], row["high"], row["limit_error"])
        for column, value in row.items():
            told = found[name, operator][column]
            assert told == pytest.approx(value, abs=1e-12, nan_ok=True), (name, operator, column)
