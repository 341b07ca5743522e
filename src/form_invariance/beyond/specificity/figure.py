"""What knocked out neurons cost: on every task, by whose best they are, and between every two formats."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.beyond.specificity.table import SPECIFICITY
from form_invariance.drawing import style
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.experiment.contrasts.cells import COPYING, OTHER_OPERATORS, OWN
from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.intervention_kinds import KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.measurements import TEXT
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT, MATCHED

INPUTS = {
    "exchange": {"specificity": SPECIFICITY},
    "tasks": {"contrasts": CONTRASTS},
    "losses": {"specificity": SPECIFICITY, "contrasts": CONTRASTS},
}
"""By figure."""


def _draw(axes: Axes, values: pd.DataFrame, darkest: float) -> None:
    shown = values.map(lambda value: "–" if np.isnan(value) else str(round(100 * value)))
    axes.set_facecolor("#E8E8E8")
    sns.heatmap(
        values, ax=axes, vmin=0, vmax=darkest, cmap="rocket_r", cbar=False, linewidths=0.5, linecolor="white"
    )
    for (row, column), text in np.ndenumerate(shown.to_numpy()):
        value = values.to_numpy()[row, column]
        colour = "white" if value > 0.5 * darkest else "black"
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6.5, color=colour)
    axes.set(xlabel="", ylabel="")


def _prompts(table: pd.DataFrame) -> str:
    """How many prompts an operator's means are over: those that the unmodified model answers correctly."""
    prompts = table.loc[table["task"].isin(table["operator"]), "prompts"]
    return f"n = {style.extent(prompts)} right answers of an operator in a format"


def exchange_matrix(table: pd.DataFrame, operator: str, column: str) -> pd.DataFrame:
    """Means of a column on an operator's prompts: rows are the ablated or kept neurons, columns the formats.

    Args:
        table: rows of one k and one intervention.
    """
    prompts = table[table["task"] == operator]
    of_operator = prompts[prompts["operator"] == operator]
    formats = table["format"].unique().tolist()
    rows = {
        **{f"best in {name}": of_operator["neurons"] == BEST_IN + name for name in formats},
        "shared by all": of_operator["neurons"] == CIRCUIT,
        "other operators', mean": (prompts["neurons"] == CIRCUIT) & (prompts["operator"] != operator),
        **{f"equal {kind.matched_by}": of_operator["neurons"] == name for name, kind in MATCHED.items()},
    }
    means = {
        name: prompts[chosen.reindex(prompts.index, fill_value=False)].groupby("format")[column].mean()
        for name, chosen in rows.items()
    }
    return pd.DataFrame(means).T.reindex(columns=formats).astype(float)


_EXCHANGED = {
    KNOCKOUT: ("probability_damage", "knocked out:\nprobability lost"),
    KEEP_ONLY: ("probability", "kept alone:\nprobability left"),
}
"""What is drawn of each intervention: the column, and its name."""


def exchange(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """A panel for each operator: what each format's best neurons do in each format.

    Above, probability of the answer that their knockout costs; below, what is left where they are kept alone.
    """
    table = tables["specificity"]
    table = table[table["k"] == k]
    heading = f"{title}: probability of the answer, percentage points, k = {k} best of each layer"
    if not table.loc[table["neurons"].str.startswith(BEST_IN), "n_neurons"].any():
        return style.nothing(heading, "no neuron is shared")
    operators, formats = table["operator"].unique().tolist(), table["format"].unique().tolist()
    figure, panels = style.panels(len(_EXCHANGED), len(operators), height=0.3 + 0.17 * (len(formats) + 4))
    figure.set_size_inches(style.TWO_COLUMNS, 1.1 + len(_EXCHANGED) * (0.15 + 0.2 * (len(formats) + 4)))
    for place, (intervention, (shown, label)) in enumerate(_EXCHANGED.items()):
        of, below = table[table["intervention"] == intervention], place == len(_EXCHANGED) - 1
        matrices = [exchange_matrix(of, operator, shown) for operator in operators]
        darkest = max(np.nanmax([matrix.to_numpy() for matrix in matrices], initial=0.0), 0.2)
        for column, (axes, values) in enumerate(zip(panels[place], matrices, strict=True)):
            _draw(axes, values, darkest)
            axes.tick_params(length=0)
            axes.set_xticks(np.arange(len(formats)) + 0.5, formats if below else [], rotation=90)
            axes.set_yticks(np.arange(len(values)) + 0.5, [] if column else values.index.tolist(), rotation=0)
        panels[place, 0].set_ylabel(label)
        bar = figure.colorbar(axes.collections[0], ax=axes, format=lambda value, _: f"{100 * value:.0f}")
        bar.ax.set_title("points", fontsize=6.5)
    for axes, operator in zip(panels[0], operators, strict=True):
        axes.set_title(operator)
    figure.supxlabel("prompts in", fontsize=7)
    figure.suptitle(f"{heading}\n{_prompts(table)}")
    return figure


def _lost(tables: Mapping[str, pd.DataFrame], k: int, *contrasts: str) -> pd.DataFrame:
    """What knockout costs, over all cells: the rows of contrasts that are defined."""
    table = overall(tables["contrasts"])
    chosen = (table["k"] == k) & (table["intervention"] == KNOCKOUT) & (table["metric"] == PRIMARY)
    return table[chosen & table["contrast"].isin(contrasts) & (table["cells"] > 0)]


def _with_prompts(names: pd.Series, rows: pd.DataFrame) -> list[str]:
    """Names with the prompts of one operator in one format; a row that is not defined has none."""
    each = rows["prompts"] / rows["cells"]
    return [f"{name} (n = {n:.0f})" if n > 0 else name for name, n in zip(names, each, strict=True)]


_CALLED = {OWN: "own operator", OTHER_OPERATORS: "other operators", TEXT: "plain text"}
"""Names of tasks in the figure."""


def tasks(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """What the knockout of the circuits costs on every task, the most first; a mark for the strongest control."""
    rows = _lost(tables, k, "circuit_minus_control")
    heading = f"{title}: knockout of the shared neurons, k = {k}"
    known = rows[rows["task"] != COPYING].sort_values("first", ascending=False)
    if known.empty:
        return style.nothing(heading, "no neuron is shared")
    known = known.assign(place=range(len(known)))
    figure, panels = style.panels(1, 1, height=0.5 + 0.19 * len(known))
    axes = panels[0, 0]
    axes.axvline(0, color="black", lw=0.6, zorder=0.5)
    # The interval is that of the difference from the control.
    axes.hlines(known["place"], known["second"] + known["low"], known["second"] + known["high"], lw=1.6)
    axes.plot(
        known["first"], known["place"], "o", color=COLOURS[0], label="shared neurons, with the 95 % interval"
    )
    axes.plot(known["second"], known["place"], "|", color=GREY, ms=7, mew=1.5, label="strongest matched control")
    for value, place in zip(known["first"], known["place"], strict=True):
        axes.annotate(f"{value:z.2f}", (value, place), (0, 4), textcoords="offset points", ha="center", fontsize=6)
    names = known["task"].map(lambda task: _CALLED.get(task, task.replace("_", " ")))
    axes.set_yticks(known["place"], _with_prompts(names, known))
    axes.set(xlabel="probability of the answer lost", ylim=(len(known) - 0.5, -0.7))
    figure.suptitle(heading)
    style.legend_below(figure, axes.get_legend_handles_labels()[0])
    return figure


def unmodified_probability(table: pd.DataFrame, k: int) -> float:
    """Mean probability of the right answer to an operator's problems in the unmodified model, over all cells."""
    rows = table[(table["k"] == k) & (table["intervention"] == KNOCKOUT) & (table["task"] == table["operator"])]
    own = rows[rows["neurons"] == BEST_IN + rows["format"]]
    return float((own["probability"] + own["probability_damage"]).mean())


LOSSES = {
    "loss_of_own_best": "the format's own best",
    "loss_of_other_formats_best": "other formats' best",
    "loss_of_other_operators_best": "other operators' best, in other formats",
    "loss_of_matched": "matched neurons",
    "loss_of_copying": "the own best, on prompts that copy a number",
}
"""By contrast, in the order of the figure."""


def losses(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """What the knockout of a format's own best costs, of other formats' and operators' best, of matched neurons.

    Below, what it costs where a number of the prompt is only copied. Dashed: all that problems can lose.
    """
    rows = _lost(tables, k, *LOSSES).set_index("contrast").reindex(list(LOSSES))
    heading = f"{title}: {k} best neurons of each late layer knocked out"
    if rows["first"].isna().all():
        return style.nothing(heading, "the model cannot do the problems")
    figure, panels = style.panels(1, 1, height=0.5 + 0.22 * len(rows))
    axes, places = panels[0, 0], np.arange(len(rows))
    colours = [COLOURS[0], COLOURS[0], COLOURS[1], GREY, COLOURS[2]]
    axes.barh(places, rows["first"], height=0.6, color=colours, alpha=0.75)
    axes.hlines(places, rows["low"], rows["high"], color="black", lw=1.2)
    for place, (value, high) in enumerate(zip(rows["first"], rows["high"], strict=True)):
        said = "undefined" if np.isnan(value) else f"{value:z.2f}"
        at = max(np.nan_to_num(value), np.nan_to_num(high), 0)
        axes.annotate(said, (at, place), (4, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(places, _with_prompts(pd.Series(LOSSES), rows))
    whole = unmodified_probability(tables["specificity"], k)
    label = "lost probability of the right answer, 95 % interval"
    if not np.isnan(whole):
        axes.vlines(whole, -0.6, list(LOSSES).index("loss_of_copying") - 0.4, color="black", lw=0.8, ls="--")
        label += f"; dashed: before, {whole:.2f}"
    axes.set(xlabel=label, ylim=(len(rows) - 0.4, -0.6))
    axes.axvline(0, color="black", lw=0.6)
    figure.suptitle(heading)
    return figure
