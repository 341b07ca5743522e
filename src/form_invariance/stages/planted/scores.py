"""What the pipeline found in a planted model, beside what was planted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from form_invariance.stages.interventions.table import INTERVENTIONS, rows_of
from form_invariance.stages.overlap.compute import POOLED
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.stages.planted.construction import LATE, PLANTED, TEMPLATES, WIDTH
from form_invariance.stages.planted.pipeline import cell, overlap_of, transfers
from form_invariance.stages.ranking.table import RANKING
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.files import read_table

EVERY_FORMAT = "all"

Row = dict[str, Any]


def score(folder: Path, planted: dict[tuple[str, int], list[int]], shared: bool) -> pd.DataFrame:
    """The planted table of one model, from the tables that the stages wrote.

    Args:
        folder: what `run_stages` filled.
        planted: from `planted_neurons`.
        shared: whether all formats have the same neurons, and so what is to be found.
    """
    rows = [*_ranked(folder, planted), *_overlap(folder, shared), *_intervened(folder, shared)]
    rows += _transferred(folder, shared)
    return pd.DataFrame(rows).assign(circuit="shared" if shared else "separate")


def _row(where: str, layer: int, measure: str, of: int, expected: float, found: Row) -> Row:
    """A row; `found` has value and random, and low and high where there is an interval."""
    row: Row = {"format": where, "layer": layer, "measure": measure, "of": of, "expected": float(expected)}
    return row | {name: found.get(name, float("nan")) for name in ("value", "low", "high", "random")}


def _ranked(folder: Path, planted: dict[tuple[str, int], list[int]]) -> Iterator[Row]:
    """Share of the planted neurons among each stage's first, as many as are planted."""
    for name in TEMPLATES:
        ranking = read_table(cell(folder, name, "ranking"), RANKING)
        for measure, column in (("first_stage", "attribution_rank"), ("ranking", "rank")):
            first = ranking[ranking[column] <= PLANTED].groupby("layer")["neuron"].agg(set)
            found = {layer: len(first[layer] & set(planted[name, layer])) for layer in LATE}
            counts = {POOLED: (sum(found.values()), PLANTED * len(LATE))}
            counts |= {layer: (count, PLANTED) for layer, count in found.items()}
            for layer, (count, of) in counts.items():
                yield _row(name, layer, measure, of, 1, {"value": count / of, "random": PLANTED / WIDTH})


def _overlap(folder: Path, shared: bool) -> Iterator[Row]:
    """Jaccard of all formats' best neurons."""
    table = read_table(overlap_of(folder), OVERLAP)
    for found in table[table["formats"] == "+".join(TEMPLATES)].to_dict("records"):
        values = {"value": found["jaccard"], "random": found["chance"], "low": found["low"], "high": found["high"]}
        yield _row(EVERY_FORMAT, found["layer"], "overlap", found["union"], shared, values)


def _intervened(folder: Path, shared: bool) -> Iterator[Row]:
    """Faithfulness when only the neurons that were found to be shared work, and when all but these do."""
    for name in TEMPLATES:
        table = read_table(cell(folder, name, "interventions"), INTERVENTIONS)
        for measure, expected in (("keep_only", shared), ("knockout", not shared)):
            own = rows_of(table, measure)
            circuit = own[own["neurons"] == "circuit"].iloc[0]
            values = {
                "value": circuit["faithfulness_mean"],
                "low": circuit["mean_low"],
                "high": circuit["mean_high"],
                "random": own.loc[own["neurons"] == "random", "faithfulness_mean"].mean(),
            }
            yield _row(name, POOLED, measure, circuit["prompts"], expected, values)


def _transferred(folder: Path, shared: bool) -> Iterator[Row]:
    """Share of wrong answers that the activations of the neurons found to be shared mend, where any is wrong."""
    for direction, path in transfers(folder).items():
        table = read_table(path, TRANSFER).set_index("condition")
        matched = table.loc["matched"]
        if matched["pairs"]:
            values: Row = {"value": matched["recovered"], "low": matched["low"], "high": matched["high"]}
            values["random"] = table.loc["random", "recovered"]
            yield _row(direction, POOLED, "transfer", matched["pairs"], shared, values)
