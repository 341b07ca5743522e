"""What the pipeline found in a planted model, compared with what was planted."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from form_invariance.stages.interventions.table import rows_of
from form_invariance.stages.planted.construction import LATE, PLANTED, TEMPLATES, WIDTH
from form_invariance.stages.planted.pipeline import Results
from form_invariance.tables.columns import EVERY_LAYER

EVERY_FORMAT = "all"

Row = dict[str, Any]


def score(tables: Results, planted: dict[tuple[str, int], list[int]], shared: bool) -> pd.DataFrame:
    """The planted table of one model.

    Args:
        tables: from `run_stages`.
        planted: from `planted_neurons`.
        shared: whether all formats have the same neurons, and so what is to be found.
    """
    rows = [*_ranked(tables, planted), *_overlap(tables, shared), *_intervened(tables, shared)]
    rows += _transferred(tables, shared)
    return pd.DataFrame(rows).assign(circuit="shared" if shared else "separate")


def _row(where: str, layer: int, measure: str, of: int, expected: float, values: Row) -> Row:
    """A row; `found` has value and random, and low and high where there is an interval."""
    row: Row = {"format": where, "layer": layer, "measure": measure, "of": of, "expected": float(expected)}
    return row | {name: values.get(name, float("nan")) for name in ("value", "low", "high", "random")}


def _ranked(tables: Results, planted: dict[tuple[str, int], list[int]]) -> Iterator[Row]:
    """Share of the planted neurons among each stage's first, as many as are planted."""
    for name in TEMPLATES:
        ranking = tables.ranking[name]
        for measure, column in (("first_stage", "attribution_rank"), ("ranking", "rank")):
            first = ranking[ranking[column] <= PLANTED].groupby("layer")["neuron"].agg(set)
            hits = {layer: len(first[layer] & set(planted[name, layer])) for layer in LATE}
            counts = {EVERY_LAYER: (sum(hits.values()), PLANTED * len(LATE))}
            counts |= {layer: (count, PLANTED) for layer, count in hits.items()}
            for layer, (count, of) in counts.items():
                yield _row(name, layer, measure, of, 1, {"value": count / of, "random": PLANTED / WIDTH})


def _overlap(tables: Results, shared: bool) -> Iterator[Row]:
    """Jaccard of all formats' best neurons."""
    for row in tables.overlap[tables.overlap["formats"] == "+".join(TEMPLATES)].to_dict("records"):
        values = {"value": row["jaccard"], "random": row["chance"], "low": row["low"], "high": row["high"]}
        yield _row(EVERY_FORMAT, row["layer"], "overlap", row["union"], shared, values)


def _intervened(tables: Results, shared: bool) -> Iterator[Row]:
    """Faithfulness when only the neurons that were found to be shared work, and when all but these do.

    By construction it is undefined where no neuron is shared.
    """
    for name in TEMPLATES:
        for measure, with_all in (("keep_only", 1.0), ("knockout", 0.0)):
            expected = with_all if shared else float("nan")
            rows = rows_of(tables.interventions[name], measure)
            circuit = rows[rows["neurons"] == "circuit"].iloc[0]
            values = {
                "value": circuit["faithfulness_mean"],
                "low": circuit["mean_low"],
                "high": circuit["mean_high"],
                "random": rows.loc[rows["neurons"] == "random", "faithfulness_mean"].mean(),
            }
            yield _row(name, EVERY_LAYER, measure, circuit["prompts"], expected, values)


def _transferred(tables: Results, shared: bool) -> Iterator[Row]:
    """Share of wrong answers that become right by transferring the shared neurons found, where any is wrong."""
    for (donor, target), rates in tables.transfer.items():
        matched = rates[rates["condition"] == "matched"].iloc[0]
        if matched["pairs"]:
            values: Row = {"value": matched["recovered"], "low": matched["low"], "high": matched["high"]}
            values["random"] = rates.loc[rates["condition"] == "random", "recovered"].mean()
            # Where no neuron is shared, there is nothing to transfer.
            expected = 1.0 if shared else float("nan")
            yield _row(f"{donor}_to_{target}", EVERY_LAYER, "transfer", matched["pairs"], expected, values)
