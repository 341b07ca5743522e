"""From which layer on a donor's state decides the answer, in a panel for each operator."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.beyond.residual_exchange.table import (
    ANSWER,
    ARRIVAL_PROBES,
    CARRY,
    COPIED,
    HEADS,
    MLP,
    OPERATOR,
    OTHERS,
    OWN,
    REPAIR,
    RESIDUAL_SHARES,
    TOGETHER,
)
from form_invariance.drawing.lines import DASH_DOT, DASHED, DOTTED, SOLID, Look, line, line_grid, looks_of, mean
from form_invariance.drawing.style import COLOURS, GREY, nothing

INPUTS = {
    "residual_exchange": {"residual_shares": RESIDUAL_SHARES},
    "heads": {"heads": HEADS},
    "arrival_probes": {"arrival_probes": ARRIVAL_PROBES},
}
"""By figure."""

SURVIVING = "the target's own answer survives"
LOOKS = {
    OWN: Look("black", "o", width=1.8, label="donor of the same format"),
    OTHERS: Look(COLOURS[0], "s", label="donor of another format"),
    COPIED: Look(COLOURS[1], dashes=DASHED, width=0.9, label="donor that copies its answer"),
    OPERATOR: Look(COLOURS[2], dashes=DASH_DOT, width=0.9, label="donor of another operator"),
    REPAIR: Look(COLOURS[3], dashes=DASHED, width=0.9, label="wrong target, same problem in another format"),
    SURVIVING: Look(GREY, dashes=DOTTED, width=0.9, label="target's own answer, with a donor of another format"),
}
"""By line."""


def residual_exchange(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """The share of outputs that are the donor's, by layer of the exchange."""
    table = tables["residual_shares"]
    prompts = table[table["donor"] == OWN].groupby("operator")["prompts"].first()
    table = table.assign(panel=table["operator"] + ", n = " + table["operator"].map(prompts).astype(str))
    surviving = line(table[table["donor"] == OTHERS], SURVIVING, "own_answer")
    rows = pd.concat([line(table, table["donor"], "donor_answer", "low", "high"), surviving])
    heading = f"{title}: the last token's state is replaced by a donor's after one layer"
    return line_grid(rows, "layer", LOOKS, heading, ylabel="share of outputs", col="panel", col_wrap=2).figure


def heads(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """The share of outputs that are the donor's if the best heads are exchanged together, where states arrive."""
    table = tables["heads"]
    table = table[table["exchanged"] == TOGETHER]
    if table.empty:
        return nothing(title, "no layer where states arrive, so no heads are exchanged")
    targets = table[table["donor_format"] == table["target_format"]].drop_duplicates(["operator", "target_format"])
    prompts = table["operator"].map(targets.groupby("operator")["prompts"].sum())
    panel = table["operator"] + ", layer " + table["layer"].astype(str) + ", n = " + prompts.astype(str)
    table = table.assign(heads=table["rank"], panel=panel)
    own_format, other_format = (
        table[(table["donor_format"] == table["target_format"]) == same] for same in (True, False)
    )
    looks = looks_of(own_format["target_format"].unique().tolist())
    looks[OTHERS] = Look(GREY, dashes=DASHED, width=0.9, label="donor of another format (mean)")
    lines = (
        line(own_format, own_format["target_format"], "donor_answer", "low", "high"),
        mean(other_format, ["panel", "heads"], OTHERS, "donor_answer"),
    )
    heading = f"{title}: the outputs of the best heads at the last token are another prompt's"
    label = "outputs that are the donor's"
    return line_grid(pd.concat(lines), "heads", looks, heading, ylabel=label, col="panel", col_wrap=2).figure


def arrival_probes(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """The probes' accuracy beyond chance, as a share of the most possible, after attention and after the MLP."""
    table = tables["arrival_probes"]
    if table.empty:
        return nothing(title, "tables of words have no operands, so nothing is probed")
    kinds = {ANSWER: "answer", "a": "operands", "b": "operands", CARRY: "carry"}
    across = pd.Series(", across formats", table.index).where(table["trained"] != table["tested"], "")
    table = table.assign(
        layer=table["layer"] + 0.5 * (table["point"] == MLP),
        name=table["target"].str.split().str[0].map(kinds) + across,
        beyond=(table["accuracy"] - table["chance"]) / (1 - table["chance"]).where(table["chance"] < 1),
    )
    tested = table.drop_duplicates(["operator", "tested"]).groupby("operator")["test_prompts"].sum()
    table = table.assign(panel=table["operator"] + ", n = " + table["operator"].map(tested).astype(str))
    rows = table.groupby(["panel", "name", "layer"], sort=False)["beyond"].mean().reset_index()
    rows = line(rows, rows["name"], "beyond")
    looks = {
        name + more: Look(colour, dashes=dashes)
        for more, dashes in (("", SOLID), (", across formats", DASHED))
        for name, colour in zip(dict.fromkeys(kinds.values()), COLOURS, strict=False)
    }
    heading = f"{title}: linear probes of the last token after attention and (+.5) after the MLP"
    return line_grid(
        rows, "layer", looks, heading, ylabel="accuracy beyond chance", col="panel", col_wrap=2
    ).figure
