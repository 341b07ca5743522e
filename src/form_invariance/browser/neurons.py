"""What the browser shows for each shared neuron, from the run's tables: ranks, effects, families, tokens, rows."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.heuristics.map_files import ActivationMaps
from form_invariance.stages.heuristics.names import SHARED

ROWS = 10
"""Rows of a table of words that are shown for a neuron."""


@dataclass(frozen=True)
class CellTables:
    """What the browser shows for one (format, operator): heuristics and maps, or the rows of a table of words."""

    ranking: pd.DataFrame
    effects: pd.DataFrame
    heuristics: pd.DataFrame | None = None
    maps: ActivationMaps | None = None
    rows: pd.DataFrame | None = None


def _rows(table: pd.DataFrame) -> Iterable[Any]:
    """The rows of a table as named tuples; pandas does not know the types of their fields."""
    return table.itertuples(index=False)


def _number(value: float, digits: int = 4) -> float | None:
    """A number rounded to some significant digits; None if it is not finite."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def families(table: pd.DataFrame) -> dict[tuple[str, int, int], dict[str, list[Any]]]:
    """Each family's best heuristic of every neuron in a cell's heuristics; labelled ones come before others.

    Returns:
        By (mode, layer, neuron) and family: heuristic, score, base rate, label, and the best score of the family
        on shuffled activations (None where none reached the threshold).
    """
    key = ["mode", "layer", "neuron", "family"]
    table = table[table["neurons"] == SHARED]
    shuffled = table["activations"] == "shuffled"
    null = table[shuffled].groupby(key)["score"].max().rename("null").reset_index()
    best = table[~shuffled].sort_values(
        ["label", "score", "heuristic"], ascending=[False, False, True], kind="stable"
    )
    by_neuron: dict[tuple[str, int, int], dict[str, list[Any]]] = {}
    for row in _rows(best.drop_duplicates(key).merge(null, on=key, how="left")):
        by_family = by_neuron.setdefault((row.mode, row.layer, row.neuron), {})
        scores = [_number(row.score, 3), _number(row.base_rate, 2)]
        by_family[row.family] = [row.heuristic, *scores, int(row.label), _number(row.null, 3)]
    return by_neuron


def agreement(sets: list[set[str]]) -> str:
    """How the formats' families of one neuron agree: same, common, different, some or none labelled."""
    if not any(sets):
        return "none"
    if not all(sets):
        return "some"
    if all(family_set == sets[0] for family_set in sets):
        return "same"
    return "common" if set.intersection(*sets) else "different"


def tokens_of(table: pd.DataFrame) -> dict[str, dict[str, list[list[Any]]]]:
    """Tokens of the table promoted_tokens and their logits, by neuron ("layer.number") and direction.

    The strongest come first.
    """
    by_neuron: dict[str, dict[str, list[list[Any]]]] = {}
    for row in _rows(table.sort_values("rank", kind="stable")):
        by_direction = by_neuron.setdefault(f"{row.layer}.{row.neuron}", {})
        by_direction.setdefault(row.direction, []).append([row.text, _number(row.logit, 3)])
    return by_neuron


def most_active_rows(tables: list[pd.DataFrame]) -> dict[tuple[int, int], list[list[Any]]]:
    """The rows on which each neuron's mean activation is farthest from 0, from row_activations of each format.

    Returns:
        By (layer, neuron), for each row: its fields, the target, the activation in each format.
    """
    key = ["layer", "neuron", "row"]
    wide = pd.concat([table.set_index(key)["activation"] for table in tables], axis=1, keys=range(len(tables)))
    order = wide.mean(axis=1).abs().sort_values(ascending=False, kind="stable").index
    best = wide.loc[order].groupby(level=["layer", "neuron"], sort=False).head(ROWS)
    said = tables[0].drop_duplicates("row").set_index("row")
    fields = said["fields"].map(json.loads)
    named = fields.map(lambda row_fields: ", ".join(f"{name}: {word}" for name, word in row_fields.items()))
    words = {row: [named[row], said["target"][row]] for row in said.index}
    by_neuron: dict[tuple[int, int], list[list[Any]]] = {}
    for (layer, neuron, row), values in zip(best.index, best.to_numpy(), strict=True):
        by_neuron.setdefault((layer, neuron), []).append([*words[row], *(_number(value) for value in values)])
    return by_neuron


def _lookup(table: pd.DataFrame) -> dict[tuple[int, int], Any]:
    return {(row.layer, row.neuron): row for row in _rows(table)}


def _of_the_same_neurons(cell: CellTables, other: CellTables) -> bool:
    """Whether two formats' maps, or the activations by row, are of the same neurons and pairs or rows."""
    if cell.rows is not None and other.rows is not None:
        key = ["layer", "neuron", "row", "fields"]
        return cell.rows[key].equals(other.rows[key])
    if cell.maps is None or other.maps is None:
        return False
    return cell.maps.neurons.equals(other.maps.neurons) and np.array_equal(cell.maps.answer, other.maps.answer)


def neurons_of(cells: Mapping[str, CellTables], where: str) -> list[dict[str, Any]]:
    """The shared neurons of one operator, best mean rank first.

    Args:
        cells: by format.
        where: model and operator, for the error.

    Returns:
        For each neuron: layer, neuron, row (index of its map), rank, ie, ie_std and knockout_probability (lists,
        one entry for each format), strict and reference (`families` for each format), agreement_strict and
        agreement_reference; for a table of words also rows, as `most_active_rows`.
    """
    format_cells = list(cells.values())
    first = format_cells[0].maps
    shared = format_cells[0].effects[["layer", "neuron"]] if first is None else first.neurons
    if not all(_of_the_same_neurons(cell, format_cells[0]) for cell in format_cells):
        raise UserError(
            f"{where}: the formats have activations of different neurons or problems; run snakemake again"
        )
    rankings = [_lookup(cell.ranking) for cell in format_cells]
    effects = [_lookup(cell.effects) for cell in format_cells]
    labelled = [{} if cell.heuristics is None else families(cell.heuristics) for cell in format_cells]
    tables = [cell.rows for cell in format_cells if cell.rows is not None]
    active = most_active_rows(tables) if tables else {}
    entries = []
    for row, pair in enumerate(_rows(shared)):
        key = (int(pair.layer), int(pair.neuron))
        ranked = [table[key] for table in rankings]
        entry: dict[str, Any] = {
            "layer": key[0],
            "neuron": key[1],
            "row": row,
            "rank": [int(ranking_row.rank) for ranking_row in ranked],
            "ie": [_number(ranking_row.ie_mean) for ranking_row in ranked],
            "ie_std": [_number(ranking_row.ie_std) for ranking_row in ranked],
            "knockout_probability": [_number(table[key].knockout_probability, 3) for table in effects],
        }
        if tables:
            entry["rows"] = active[key]
        for mode in ("strict", "reference"):
            entry[mode] = [of.get((mode, *key), {}) for of in labelled]
            sets = [{name for name, values in by_family.items() if values[3]} for by_family in entry[mode]]
            entry[f"agreement_{mode}"] = agreement(sets)
        entries.append(entry)
    return sorted(entries, key=lambda neuron: (sum(neuron["rank"]), neuron["layer"], neuron["neuron"]))
