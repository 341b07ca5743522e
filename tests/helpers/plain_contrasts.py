"""The rows of one contrast from the values by prompt of its cells, with the noise of rankings by plain loops."""

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
    """A table of one contrast has a row for each cell, for the cells of each operator and for all, and no other.

    Cells are, by (format or direction, operator), (first, second, problems, control, draws, halves). Halves are
    the mean differences by either half of the train prompts; test_contrasts.py tests the other noise.
    """
    pairs = {cell: pair(*given[:3], resamples, seed, *given[3:5], bounded) for cell, given in cells.items()}
    errors = {}
    for cell, one in pairs.items():
        if one.defined:
            errors.setdefault(cell[1], []).append((cells[cell][5][0] - cells[cell][5][1]) / 2)
    found = {(row["format"], row["operator"]): row for row in table.to_dict("records")}
    assert len(found) == len(table)
    assert found.keys() == {*cells, *((ALL, operator) for _, operator in cells), (ALL, ALL)}
    for name, operator in found:
        some = [one for cell, one in pairs.items() if name in (ALL, cell[0]) and operator in (ALL, cell[1])]
        row = described(some[0] if len(some) == 1 else over_cells(some))
        squares = [np.mean(own) ** 2 if name == ALL else np.square(own).mean() for own in errors.values()]
        counts = [1 if name == ALL else len(own) for own in errors.values()]
        if row["cells"]:
            square = np.average(squares, weights=counts) / (len(errors) if operator == ALL else 1)
            row["ranking_noise"] = t.ppf(0.975, len(errors)) * square**0.5
            for side, limit in ((-1, "low"), (1, "high")):
                beyond = np.hypot(row[limit] - row["difference"], row["ranking_noise"])
                row[limit] = row["difference"] + side * beyond
            row["verdict"] = verdict(row["low"], row["high"], row["limit_error"])
        for column, value in row.items():
            said = found[name, operator][column]
            assert said == pytest.approx(value, abs=1e-12, nan_ok=True), (name, operator, column)
