"""The notebook says what it said when its outputs were written."""

import re
import time

import notebook
import pytest

pytestmark = pytest.mark.nightly


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def test_the_notebooks_outputs_are_true():
    cells, start = notebook.code_cells(), time.monotonic()
    found = list(notebook.run(cells))
    assert time.monotonic() - start < 120
    for cell, (said, drawn) in zip(cells, found, strict=True):
        before = notebook.printed(cell)
        assert re.sub(r"[\d.]+", "0", said) == re.sub(r"[\d.]+", "0", before)
        # Another processor may round the last digit otherwise.
        assert numbers(said) == pytest.approx(numbers(before), abs=0.011)
        assert drawn == any(one["output_type"] == "display_data" for one in cell["outputs"])
    (by_replay, by_hooks) = next(numbers(said) for said, _ in found if "by hooks" in said)
    assert by_replay == pytest.approx(by_hooks, abs=1e-4)
    assert by_replay > 0.05
