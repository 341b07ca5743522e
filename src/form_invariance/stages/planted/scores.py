"""What the pipeline found in a planted model, compared with what was planted."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from form_invariance.stages.interventions.table import rows_of
from form_invariance.stages.planted.construction import LATE, PLANTED, TEMPLATES, WIDTH
from form_invariance.stages.planted.pipeline import Found
from form_invariance.tables.columns import EVERY_LAYER

EVERY_FORMAT = "all"

Row = dict[str, Any]


def score(tables: Found, planted: dict[tuple[str, int], list[int]], shared: bool) -> pd.DataFrame:
    """The planted table of one model.

    Args:
        tables: from `run_stages`.
        planted: from `planted_neurons`.
        shared: whether all formats have the same neurons, and so what is to be found.
    """
    rows = [*_ranked(tables, planted), *_overlap(tables), *_intervened(tables), *_transferred(tables)]
    expected = {"first_stage": 1, "ranking": 1, "knockout": not shared}
    for row in rows:
        row.setdefault("layer", EVERY_LAYER)
        row["expected"] = float(expected.get(row["measure"], shared))
    return pd.DataFrame(rows).assign(circuit="shared" if shared else "separate")


def _ranked(tables: Found, planted: dict[tuple[str, int], list[int]]) -> Iterator[Row]:
    """Share of the planted neurons among each stage's first, as many as are planted."""
    for name in TEMPLATES:
        ranking = tables.ranking[name]
        for measure, column in (("first_stage", "attribution_rank"), ("ranking", "rank")):
            first = ranking[ranking[column] <= PLANTED].groupby("layer")["neuron"].agg(set)
            found = {layer: len(first[layer] & set(planted[name, layer])) for layer in LATE}
            counts = {EVERY_LAYER: sum(found.values()), **found}
            for layer, count in counts.items():
                of = PLANTED * (len(LATE) if layer == EVERY_LAYER else 1)
                rates = {"value": count / of, "random": PLANTED / WIDTH}
                yield {"format": name, "layer": layer, "measure": measure, "of": of, **rates}


def _overlap(tables: Found) -> Iterator[Row]:
    """Jaccard of all formats' best neurons."""
    for row in tables.overlap[tables.overlap["formats"] == "+".join(TEMPLATES)].itertuples():
        values = {"value": row.jaccard, "low": row.low, "high": row.high, "random": row.chance}
        yield {"format": EVERY_FORMAT, "layer": row.layer, "measure": "overlap", "of": row.union, **values}


def _intervened(tables: Found) -> Iterator[Row]:
    """Faithfulness when only the neurons that were found to be shared work, and when all but these do."""
    for name in TEMPLATES:
        for measure in ("keep_only", "knockout"):
            own = rows_of(tables.interventions[name], measure)
            circuit = own[own["neurons"] == "circuit"].iloc[0]
            random = own.loc[own["neurons"] == "random", "faithfulness_mean"].mean()
            limits = {"low": circuit["mean_low"], "high": circuit["mean_high"], "random": random}
            row = {"format": name, "measure": measure, "of": circuit["prompts"]}
            yield {**row, "value": circuit["faithfulness_mean"], **limits}


def _transferred(tables: Found) -> Iterator[Row]:
    """Share of wrong answers that become right by transferring the shared neurons found, where any is wrong."""
    for (donor, target), found in tables.transfer.items():
        table = found.set_index("condition")
        matched = table.loc["matched"]
        if matched["pairs"]:
            row = {"format": f"{donor}_to_{target}", "measure": "transfer", "of": matched["pairs"]}
            limits = {"low": matched["low"], "high": matched["high"], "random": table.loc["random", "recovered"]}
            yield {**row, "value": matched["recovered"], **limits}
