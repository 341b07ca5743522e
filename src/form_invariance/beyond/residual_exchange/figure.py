"""From which layer on a donor's state decides the answer: one panel an operator."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.beyond.residual_exchange.table import (
    ALONE,
    COPIED,
    HEADS,
    OPERATOR,
    OTHERS,
    OWN,
    REPAIR,
    RESIDUAL_SHARES,
)
from form_invariance.drawing.lines import DASH_DOT, DASHED, DOTTED, Look, line, line_grid, looks_of, mean
from form_invariance.drawing.style import COLOURS, GREY, nothing

INPUTS = {"residual_exchange": {"residual_shares": RESIDUAL_SHARES}, "heads": {"heads": HEADS}}
"""By figure."""

SURVIVING = "the target's own answer survives"
LOOKS = {
    OWN: Look("black", "o", width=1.8, label="donor of the own format"),
    OTHERS: Look(COLOURS[0], "s", label="donor of another format"),
    COPIED: Look(COLOURS[1], dashes=DASHED, width=0.9, label="donor copied its answer"),
    OPERATOR: Look(COLOURS[2], dashes=DASH_DOT, width=0.9, label="donor of another operator"),
    REPAIR: Look(COLOURS[3], dashes=DASHED, width=0.9, label="wrong target, same problem in another format"),
    SURVIVING: Look(GREY, dashes=DOTTED, width=0.9, label=f"{SURVIVING} another format"),
}
"""By line."""


def residual_exchange(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """The share of outputs that are the donor's, by layer of the exchange."""
    table = tables["residual_shares"]
    surviving = line(table[table["donor"] == OTHERS], SURVIVING, "own_answer")
    rows = pd.concat([line(table, table["donor"], "donor_answer", "low", "high"), surviving])
    heading = f"{title}: the last token's residual stream is another prompt's after one layer"
    label = "outputs that are the donor's"
    across = min(2, table["operator"].nunique())
    return line_grid(rows, "layer", LOOKS, label, heading, col="operator", col_wrap=across).figure


def heads(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """What each head of the layer where states arrive brings, by format."""
    table = tables["heads"]
    table = table[(table["from_arrival"] == 0) & (table["exchanged"] == ALONE)]
    if table.empty:
        return nothing(title, "no layer where states arrive, so no heads are exchanged")
    heading = f"{title}: one head's output at the last token is another prompt's"
    own, other = (table[(table["donor_format"] == table["target_format"]) == same] for same in (True, False))
    looks = looks_of(own["target_format"].unique().tolist())
    looks[OTHERS] = Look(GREY, dashes=DASHED, width=0.9, label="donor of another format (mean)")
    rows = pd.concat(
        [
            line(own, own["target_format"], "donor_answer", "low", "high"),
            mean(other, ["operator", "layer", "head"], OTHERS, "donor_answer"),
        ]
    ).assign(panel=lambda rows: rows["operator"] + ", layer " + rows["layer"].astype(str))
    label = "outputs that are the donor's"
    across = min(2, rows["panel"].nunique())
    return line_grid(rows, "head", looks, label, heading, col="panel", col_wrap=across).figure
