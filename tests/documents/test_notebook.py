"""The notebook's outputs, which `jupyter nbconvert --execute --inplace` writes, are what its code says."""

import contextlib
import io
import json
import re

import matplotlib as mpl
import pytest

from conftest import ROOT

mpl.use("agg")
import matplotlib.pyplot as plt

pytestmark = pytest.mark.nightly


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def test_the_notebooks_outputs_are_true():
    every = json.loads((ROOT / "docs/find_neurons.ipynb").read_text())["cells"]
    cells = [cell for cell in every if cell["cell_type"] == "code"]
    space, found = {}, []
    for cell in cells:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec("".join(cell["source"]), space)
        found.append((said.getvalue(), bool(plt.get_fignums())))
        plt.close("all")
    for cell, (said, drawn) in zip(cells, found, strict=True):
        outputs = cell["outputs"]
        before = "".join(line for one in outputs if one["output_type"] == "stream" for line in one["text"])
        assert re.sub(r"[\d.]+", "0", said) == re.sub(r"[\d.]+", "0", before)
        # Another processor may round the last digit otherwise.
        assert numbers(said) == pytest.approx(numbers(before), abs=0.011)
        assert drawn == any(one["output_type"] == "display_data" for one in outputs)
    (by_replay, by_hooks) = next(numbers(said) for said, _ in found if "by hooks" in said)
    assert by_replay == pytest.approx(by_hooks, abs=1e-4)
    assert by_replay > 0.05
