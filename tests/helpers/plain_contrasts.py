"""The rows of one contrast from the values by prompt of its cells, with the noise of rankings by plain loops."""

import numpy as np
import pytest
from scipy.stats import t

from form_invariance.experiment.contrasts import ALL, described, over_cells, paired, verdict


def check_rows(table, key, cells, resamples, seed):
    """A table of one contrast has a row for each cell, for the cells of each operator and for all, and no other.

    `key` is its column of formats or directions; cells are, by (format or direction, operator), (first, second,
    problems, control, draws, halves). Halves are the mean differences by either half of the train prompts;
    test_contrasts.py tests the other noise.
    """
    pairs = {cell: paired(*given[:3], resamples, seed, *given[3:5]) for cell, given in cells.items()}
    errors = {}
    for cell, pair in pairs.items():
        if pair.defined:
            errors.setdefault(cell[1], []).append((cells[cell][5][0] - cells[cell][5][1]) / 2)
    found = {(row[key], row["operator"]): row for row in table.to_dict("records")}
    assert len(found) == len(table)
    assert found.keys() == {*cells, *((ALL, operator) for _, operator in cells), (ALL, ALL)}
    for name, operator in found:
        some = [pair for cell, pair in pairs.items() if name in (ALL, cell[0]) and operator in (ALL, cell[1])]
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
