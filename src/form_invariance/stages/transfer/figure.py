"""Recovery by cross-format transfer over circuit size (paper, Figures 6 and 7), and its contrasts."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import DASH_DOT, DASHED, DOTTED, Look, line, line_grid, looks_of
from form_invariance.drawing.style import COLOURS, GREY, LIGHT
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.stages.transfer.names import CEILINGS, NO_DONOR, OTHER_NEURONS
from form_invariance.stages.transfer.table import TRANSFER, with_direction
from form_invariance.statistics import wilson
from form_invariance.tables.columns import ALL

INPUTS = {"transfer": {"transfer": TRANSFER}, "transfer_contrasts": {"contrasts": CONTRASTS}}
"""The input tables of each figure."""

LOOKS = {
    "matched": Look(COLOURS[0], "o", width=2.0, label="matched donor"),
    "same_answer": Look(COLOURS[2], "^", DASHED, label="donor: other problem, equal answer"),
    "imposed": Look(COLOURS[1], "s", label="mismatched donor imposes its answer"),
    NO_DONOR: Look(COLOURS[4], "D", DASHED, 0.9, label="no donor: means over prompts"),
    "control": Look(GREY, "v", width=0.6, label="strongest control"),
    "all_late": Look("black", dashes=DOTTED, width=0.9, label="ceiling: all late neurons"),
    "residual": Look("black", dashes=DASH_DOT, width=0.7, label="ceiling: residual stream"),
    "harm_matched": Look(COLOURS[3], "X", DOTTED, 0.9, label="harm: right answers turned wrong"),
}
"""The look of each line."""

TITLES = {
    "matched_minus_baseline": "matched −\nbest baseline",
    "matched_minus_same_answer": "matched −\nsame answer",
    "matched_minus_copied_answer": "matched −\ncopied answer",
    "imposed": "another answer\nis imposed",
    "interchange": "the same where\nboth are right",
    "interchange_minus_copied": "the same −\ncopied answer",
}
"""The title of each contrast's panel."""

COPYING = ("matched_minus_copied_answer", "interchange_minus_copied")
"""The contrasts with donors that copy."""

_PANEL = ["direction", "operator"]


def transfer(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Rates with their Wilson intervals, and the number of pairs.

    Rows are directions, columns operators. Those without a panel that has pairs and shared neurons are left out.
    """
    heading = f"{title}: share of wrong answers corrected by a donor's activations"
    table = with_direction(tables["transfer"])
    tried = table[(table["condition"] == "matched") & (table["pairs"] > 0) & (table["n_neurons"] > 0)]
    if tried.empty:
        return style.nothing(heading, "no neuron is shared, or no answer is wrong in one format alone")
    table = table[table["direction"].isin(tried["direction"]) & table["operator"].isin(tried["operator"])]
    table = table.assign(direction=table["direction"].str.replace("_to_", "\nto "))
    grid = line_grid(_lines(table), "k", LOOKS, heading, row="direction", col="operator", height=1.0)
    pairs = table.groupby([*_PANEL, "condition"])["pairs"].max()
    for panel, axes in grid.axes_dict.items():
        axes.text(0.03, 1.0, _denominators(pairs[panel]), transform=axes.transAxes, va="bottom", fontsize=6)
    for axes in grid.axes[0]:
        axes.set_title(axes.get_title(), pad=12)
    return grid.figure


def _lines(table: pd.DataFrame) -> pd.DataFrame:
    """The data of the lines in `LOOKS`, for every panel."""
    conditions = table["condition"]
    rows = table[conditions.isin(["matched", "same_answer", NO_DONOR, "harm_matched"])]
    mismatched = table[conditions == "mismatched"]
    low, high = wilson(
        (mismatched["donor_answer"] * mismatched["pairs"]).to_numpy(), mismatched["pairs"].to_numpy()
    )
    imposed = mismatched.assign(low=low, high=high)
    draws = table[conditions.isin(OTHER_NEURONS)].groupby([*_PANEL, "k", "condition"])["recovered"].mean()
    strongest = draws.groupby([*_PANEL, "k"]).max().reset_index()
    ceilings = table[conditions.isin(CEILINGS)].drop(columns="k")
    ceilings = ceilings.merge(rows[["k"]].drop_duplicates(), how="cross")
    return pd.concat(
        [
            line(rows, rows["condition"], "recovered", "low", "high"),
            line(imposed, "imposed", "donor_answer", "low", "high"),
            line(strongest, "control", "recovered"),
            line(ceilings, ceilings["condition"], "recovered"),
        ],
        ignore_index=True,
    )


def _denominators(pairs: pd.Series) -> str:
    """The label with the numbers of pairs; `pairs` has them by condition."""
    shown = f"n = {pairs['matched']}" if pairs.get("matched", 0) else "no pairs"
    return f"{shown}, harm n = {pairs['harm_matched']}" if pairs.get("harm_matched", 0) else shown


def transfer_contrasts(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """A panel for each contrast: over all cells with its interval, and by operator as the mean over directions."""
    table = tables["contrasts"]
    table = table[table["format"] == ALL]
    measured = table.groupby("contrast")["difference"].transform("count") > 0
    # Contrasts with donors that copy have no panels if there are no such donors.
    table = table[table["contrast"].isin(TITLES) & (measured | ~table["contrast"].isin(COPYING))]
    table = table.assign(title=table["contrast"].map(TITLES))
    whole, operators = (table[(table["operator"] == ALL) == pooled] for pooled in (True, False))
    looks = {ALL: Look("black", "o", width=1.8, label="all operators and directions")}
    for name, look in looks_of(operators["operator"].unique().tolist()).items():
        looks[name] = Look(look.colour, "", DASHED, 0.9)
    drawn = pd.concat(
        [
            line(whole, ALL, "difference", "low", "high"),
            line(operators, operators["operator"], "difference"),
        ]
    )
    heading = f"{title}: what the donor's problem adds to its answer"
    across = 3 if drawn["title"].nunique() == len(TITLES) else len(TITLES) - len(COPYING)
    grid = line_grid(drawn, "k", looks, heading, ylabel="difference, share", col="title", col_wrap=across)
    for axes in grid.axes.flat:
        axes.axhline(0, color=LIGHT, lw=0.5, zorder=0)
    lowest = min(-0.03, *(float(drawn[column].min()) - 0.03 for column in ("value", "low")))
    grid.axes.flat[0].set_ylim(bottom=lowest)
    return grid.figure
