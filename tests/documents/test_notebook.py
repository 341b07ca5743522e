"""The notebook's outputs, which `jupyter nbconvert --execute --inplace` writes, are what its code says."""

import contextlib
import io
import json
import re

import matplotlib as mpl
import pytest

from conftest import ROOT

mpl.use("agg")


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


@pytest.mark.nightly
def test_the_notebooks_outputs_are_true():
    space = {}
    for cell in json.loads((ROOT / "docs/find_neurons.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec("".join(cell["source"]), space)
            printed = (one["text"] for one in cell["outputs"] if one["output_type"] == "stream")
            found, before = said.getvalue(), "".join(line for lines in printed for line in lines)
            assert re.sub(r"[\d.]+", "0", found) == re.sub(r"[\d.]+", "0", before)
            # Another processor may round the last digit otherwise.
            assert numbers(found) == pytest.approx(numbers(before), abs=0.011)
