"""Do the shared neurons suffice, and are they needed?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, in_how_many, percent
from form_invariance.stages.interventions.table import FORMAT_MEANS, INTERVENTIONS, TEMPLATE_MEANS, rows_of
from form_invariance.tables.inputs import Input

INPUTS = {"interventions": Input(INTERVENTIONS, ("format", "operator"))}
_BY_TEMPLATE = ("circuit, template's means", "random, template's means")


def _measured(table: pd.DataFrame, intervention: str, measure: str) -> pd.DataFrame:
    """The measure of circuit and random neurons in each cell, with either kind of means; `table` has one k."""
    cell = ["format", "operator"]
    parts = [table[table["neurons"] == "circuit"].groupby(cell, sort=False)[["n_neurons"]].first()]
    for means in (FORMAT_MEANS, TEMPLATE_MEANS):
        rows = rows_of(table, intervention, means=means)
        by_neurons = rows.groupby([*cell, "neurons"])[measure].mean().unstack("neurons")
        parts.append(by_neurons.reindex(index=parts[0].index, columns=["circuit", "random"]))
    found = pd.concat(parts, axis=1).reset_index()
    found.columns = pd.Index([*cell, "neurons", "circuit", "random", *_BY_TEMPLATE])
    return found


def _by_template(table: pd.DataFrame) -> str:
    circuit, random = (percent(table[name].mean()) for name in _BY_TEMPLATE)
    return f" With the means of each template instead of the format's: {circuit} ({random})."


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Keep-only by faithfulness, and knockout by accuracy."""
    own = tables["interventions"][tables["interventions"]["k"] == k]
    kept = _measured(own, "keep_only", "faithfulness_mean")
    circuit, random = (percent(kept[name].mean()) for name in ("circuit", "random"))
    sufficient = (
        f"If all other late neurons are set to their means, the shared ones (k = {k}) keep {circuit} of what the "
        f"model does beyond a fully ablated one; as many random neurons keep {random}. The circuit is better "
        f"{in_how_many(kept['circuit'] > kept['random'])} cells."
    )
    lost = _measured(own, "knockout", "accuracy")
    circuit, random = (percent(lost[name].mean()) for name in ("circuit", "random"))
    necessary = (
        f"If the shared neurons (k = {k}) are set to their means, {circuit} of the answers stay correct; with as "
        f"many random neurons {random}. The circuit's loss is larger "
        f"{in_how_many(lost['circuit'] < lost['random'])} cells."
    )
    return [
        Answer("Do the shared neurons suffice?", sufficient + _by_template(kept), kept, ("keep_only",)),
        Answer("Are the shared neurons needed?", necessary + _by_template(lost), lost, ("knockout",)),
    ]
