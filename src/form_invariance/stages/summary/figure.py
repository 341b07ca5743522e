"""All models in one figure: each question's difference from the strongest control, over circuit size."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import DASHED, Look, line, line_grid
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.stages.questions import QUESTIONS
from form_invariance.stages.specificity.table import ALL
from form_invariance.stages.summary.table import BEYOND_OPERATOR, VERDICTS
from form_invariance.stages.verdicts import PRIMARY
from form_invariance.tables.inputs import Input

INPUTS = {"verdicts": Input(VERDICTS, ("model",))}

TITLES = {name: question.panel for name, question in QUESTIONS.items() if question.panel}
DIFFERENCE, LENIENT, IMPOSED = (
    "difference, 95 % interval",
    "by accuracy, beyond control or operator",
    "a donor imposes its answer",
)
LOOKS = {
    DIFFERENCE: Look(COLOURS[0], "o", width=1.4),
    LENIENT: Look(GREY, dashes=DASHED, width=1.0),
    IMPOSED: Look(COLOURS[1], "s", width=1.0),
}
_LINES = {
    **{(question, metric): DIFFERENCE for question in TITLES for metric in ("jaccard", "accuracy", "rate")},
    **{(question, PRIMARY): DIFFERENCE for question in ("sufficient", "necessary")},
    **{(question, "accuracy"): LENIENT for question in ("sufficient", "necessary")},
    ("specific", "accuracy beyond control"): LENIENT,
    ("same", BEYOND_OPERATOR): LENIENT,
    ("imposed", "rate"): IMPOSED,
}


def summary(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Rows are models, columns questions; above the zero line is yes, if the interval is."""
    table = tables["verdicts"]
    table = table[table["operator"] == ALL]
    keys = pd.Series(list(zip(table["question"], table["metric"], strict=True)), index=table.index)
    table = table.assign(line=keys.map(_LINES)).dropna(subset="line")
    panel = table["question"].replace("imposed", "beyond_the_answer").map(TITLES)
    drawn = line(table.assign(panel=panel), table["line"], "difference", "low", "high")
    drawn = drawn.sort_values("panel", key=lambda names: names.map(list(TITLES.values()).index), kind="stable")
    grid = line_grid(drawn, "k", LOOKS, "", title, row="model", col="panel", height=1.5)
    for (model, name), axes in grid.axes_dict.items():
        axes.axhline(0, color="black", lw=0.6, zorder=0.5)
        of_model = drawn[(drawn["model"] == model) & (drawn["line"] == DIFFERENCE)]
        if of_model.loc[of_model["panel"] == name, "value"].isna().all():
            # A model without errors shares neurons, but there is no pair that another format could correct.
            shared = of_model.loc[of_model["panel"] == TITLES["sufficient"], "value"].notna().any()
            words = "too few pairs" if shared else "no shared neuron"
            axes.text(0.5, 0.6, words, transform=axes.transAxes, ha="center", fontsize=6.5)
    grid.axes[0, 0].set_ylim(-0.65, 1.05)
    # Said once: the panels are narrower than these words.
    for place, axes in enumerate(grid.axes[-1]):
        axes.set_xlabel(axes.get_xlabel() if place == grid.axes.shape[1] // 2 else "")
    return grid.figure
