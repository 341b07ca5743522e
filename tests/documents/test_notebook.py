"""The notebook says what it said when its outputs were written."""

import re
import time

import notebook
import pytest

pytestmark = pytest.mark.nightly


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def test_the_notebooks_outputs_are_true():
    stored, start = notebook.read(), time.monotonic()
    found = list(notebook.run(notebook.read()))
    assert time.monotonic() - start < 120
    written = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    for cell, (_, said, figure) in zip(written, found, strict=True):
        before = notebook.printed(cell)
        assert re.sub(r"[\d.]+", "0", said) == re.sub(r"[\d.]+", "0", before)
        # Another processor may round the last digit otherwise.
        assert numbers(said) == pytest.approx(numbers(before), abs=0.011)
        assert bool(figure) == any(one["output_type"] == "display_data" for one in cell["outputs"])
    (by_replay, by_hooks) = next(numbers(said) for _, said, _ in found if "by hooks" in said)
    assert by_replay == pytest.approx(by_hooks, abs=1e-4)
    assert by_replay > 0.05
