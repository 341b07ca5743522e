"""Run the notebook of the docs: its code cells in one space, what they print, and the figures that they draw.

As a command it writes the outputs into the notebook.
"""

import base64
import contextlib
import io
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

NOTEBOOK = Path(__file__).parents[2] / "docs/find_neurons.ipynb"


def read():
    return json.loads(NOTEBOOK.read_text())


def run(notebook):
    """What each code cell prints, and its figure as PNG (or None)."""
    space = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec("".join(cell["source"]), space)
            figure = None
            if plt.get_fignums():
                buffer = io.BytesIO()
                plt.gcf().savefig(buffer, dpi=80, bbox_inches="tight", metadata={"Software": None})
                figure = buffer.getvalue()
                plt.close("all")
            yield cell, said.getvalue(), figure


def printed(cell):
    """What a cell printed when its outputs were written."""
    return "".join(line for one in cell["outputs"] if one["output_type"] == "stream" for line in one["text"])


def main():
    notebook = read()
    for number, (cell, said, figure) in enumerate(run(notebook), 1):
        cell["execution_count"] = number
        cell["outputs"] = []
        if said:
            lines = said.splitlines(keepends=True)
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines})
        if figure:
            data = {"image/png": base64.b64encode(figure).decode() + "\n"}
            cell["outputs"].append({"output_type": "display_data", "metadata": {}, "data": data})
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
