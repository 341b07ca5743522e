"""Run the notebook of the docs: its code cells in one space, and what they print and draw.

`jupyter nbconvert --execute --inplace docs/find_neurons.ipynb` writes the outputs into the notebook.
"""

import contextlib
import io
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

NOTEBOOK = Path(__file__).parents[2] / "docs/find_neurons.ipynb"


def code_cells():
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def run(cells):
    """What each code cell prints, and whether it draws."""
    space = {}
    for cell in cells:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec("".join(cell["source"]), space)
        yield said.getvalue(), bool(plt.get_fignums())
        plt.close("all")


def printed(cell):
    """What a cell printed when its outputs were written."""
    return "".join(line for one in cell["outputs"] if one["output_type"] == "stream" for line in one["text"])
