"""All models in one figure: overlap, sufficiency, necessity, transfer. Thin lines are cells, thick ones means."""

from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from form_invariance.drawing.lines import DASHED, DOTTED, Look, line, line_grid, mean
from form_invariance.drawing.style import COLOURS, GREY, LIGHT
from form_invariance.stages.interventions.table import INTERVENTIONS, rows_of
from form_invariance.stages.overlap.figure import PARTS_ACROSS, PARTS_WITHIN
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY, all_formats
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.inputs import Input

INPUTS = {
    "overlap": Input(OVERLAP, ("model", "operator")),
    "reliability": Input(RELIABILITY, ("model", "operator")),
    "interventions": Input(INTERVENTIONS, ("model", "format", "operator")),
    "transfer": Input(TRANSFER, ("model", "operator", "direction")),
}

CIRCUIT, CONTROL = "shared circuit", "random neurons, as many"
SUFFICIENT, NECESSARY = "Sufficient?\nfaithfulness, keep-only", "Necessary?\nfaithfulness, knockout"
SAME, TRANSFERABLE = "Same neurons?\nJaccard of the top k", "Transferable?\nanswers corrected"
LOOKS = {
    CIRCUIT: Look(COLOURS[0], "o", width=1.8),
    CONTROL: Look(COLOURS[1], "s", width=1.8),
    PARTS_ACROSS: Look(COLOURS[0], dashes=DASHED),
    PARTS_WITHIN: Look(GREY, dashes=DASHED, width=2.0),
    "chance": Look("black", dashes=DOTTED),
}


def summary(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Rows are models, columns the four findings."""
    every, parts, done = all_formats(tables["overlap"]), tables["reliability"], tables["interventions"]
    neurons = {"circuit": CIRCUIT, "random": CONTROL}
    conditions = {"matched": CIRCUIT, "random": CONTROL}
    findings = {
        SAME: line(every, CIRCUIT, "jaccard").assign(cell=every["operator"]),
        SUFFICIENT: _cells(rows_of(done, "keep_only"), "format", "neurons", neurons, "faithfulness_ratio"),
        NECESSARY: _cells(rows_of(done, "knockout"), "format", "neurons", neurons, "faithfulness_ratio"),
        TRANSFERABLE: _cells(tables["transfer"], "direction", "condition", conditions, "recovered"),
    }
    thin = pd.concat([cells.assign(finding=finding) for finding, cells in findings.items()])
    by = ["model", "k"]
    references = [
        mean(parts[parts["kind"] == "parts"], by, PARTS_WITHIN, "jaccard"),
        mean(parts[parts["kind"] == "across_parts"], by, PARTS_ACROSS, "jaccard"),
        mean(every, by, "chance", "chance"),
    ]
    means = thin.groupby([*by, "finding", "line"], sort=False)["value"].mean().reset_index()
    thick = pd.concat([line(means, means["line"], "value"), *(one.assign(finding=SAME) for one in references)])
    grid = line_grid(thick, "k", LOOKS, "", title, row="model", col="finding", height=1.75)
    given = {
        "palette": {name: LOOKS[name].colour for name in (CIRCUIT, CONTROL)},
        **{"linewidth": 0.4, "alpha": 0.4, "zorder": 1.5, "legend": False},
    }
    for (model, finding), axes in grid.axes_dict.items():
        own = thin[(thin["model"] == model) & (thin["finding"] == finding)]
        axis = axes.get_xlabel()
        sns.lineplot(own, x="k", y="value", hue="line", units="cell", estimator=None, ax=axes, **given)
        axes.set_xlabel(axis)
        for level in (0, 1) if finding in (SUFFICIENT, NECESSARY) else ():
            axes.axhline(level, color=LIGHT, lw=0.5, zorder=0)
        if own["value"].isna().all():
            axes.text(0.5, 0.5, "no shared neuron", transform=axes.transAxes, ha="center", va="center", size=6.5)
    grid.axes[0, 0].set_ylim(-0.25, 1.1)
    return grid.figure


def _cells(table: pd.DataFrame, cell: str, column: str, lines: Mapping[str, str], value: str) -> pd.DataFrame:
    """The mean of a value over repeats; `lines` are the lines' names by the values of a column."""
    named = table.assign(line=table[column].map(lines), cell=table["operator"] + " " + table[cell])
    return named.groupby(["model", "cell", "line", "k"], sort=False)[value].mean().rename("value").reset_index()
