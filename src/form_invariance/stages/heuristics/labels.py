"""The heuristics table of one cell: both modes, observed and shuffled activations."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.model.decoder import Decoder
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer, check_template
from form_invariance.randomness import generator
from form_invariance.stages.heuristics import map_files, published, strict
from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.classes import members_of
from form_invariance.stages.heuristics.names import family
from form_invariance.stages.heuristics.null import Null
from form_invariance.stages.heuristics.pairs import Grid, published_part
from form_invariance.stages.heuristics.table import HEURISTICS


def _published(maps: np.ndarray, kv: np.ndarray, grid: Grid, threshold: float, floor: float) -> pd.DataFrame:
    """Scores of the published algorithm on its own grid, with base rates."""
    keep, own = published_part(grid)
    table = published.score(maps[:, keep], kv[:, keep], own, floor)
    # A pattern may have a row of either end; a neuron carries it once.
    table = table.sort_values("score", ascending=False)
    table = table.drop_duplicates(["neuron", "heuristic"])
    base = {name: members_of(name, own).mean() for name in table["heuristic"].unique()}
    rates = table["heuristic"].map(base).astype(float)
    return table.assign(
        base_rate=rates, lift=table["score"] / rates, p_value=np.nan, label=table["score"] >= threshold
    )


def shuffled(maps: np.ndarray, seed: int, *names: str) -> np.ndarray:
    """Every neuron's activations shuffled over the pairs, each on its own, (neurons, N)."""
    return generator(seed, "shuffled-activations", *names).permuted(maps, axis=1)


def label_maps(
    maps: np.ndarray,
    logits: np.ndarray,
    grid: Grid,
    neurons: Mapping[int, np.ndarray],
    threshold: float,
    null: Null,
    seed: int,
    name: str,
) -> pd.DataFrame:
    """The heuristics table of a cell.

    Args:
        maps: K maps, (neurons, N).
        logits: logit of the pair's answer by neuron, (neurons, N): KV map = K map x logit.
        neurons: the neurons of each layer, in the order of the maps' rows.
        threshold: score that a label needs.
        null: the random maps of the grid.
        name: the cell's name, for the seeded shuffle.

    Returns:
        Rows with at least half the threshold as score (of the shuffled activations, the labels alone).
    """
    if not len(maps):
        return pd.DataFrame(columns=list(HEURISTICS.columns)).astype(
            {"layer": "int64", "neuron": "int64", "label": bool}
        )
    layers = np.repeat(list(neurons), [len(own) for own in neurons.values()])
    numbers = np.concatenate(list(neurons.values()))
    tables = []
    for activations, k_maps in (("observed", maps), ("shuffled", shuffled(maps, seed, name))):
        kv_maps = k_maps * logits
        floor = threshold / 2 if activations == "observed" else threshold
        for mode, table in (
            ("reference", _published(k_maps, kv_maps, grid, threshold, floor)),
            ("strict", strict.score(k_maps, kv_maps, grid, threshold, floor, null)),
        ):
            table = table if activations == "observed" else table[table["label"]]
            row = table["neuron"].to_numpy()
            tables.append(
                table.assign(
                    mode=mode,
                    activations=activations,
                    layer=layers[row],
                    neuron=numbers[row],
                    family=table["heuristic"].map(family),
                )
            )
    columns = ["mode", "activations", "layer", "neuron", "heuristic"]
    return pd.concat(tables).sort_values(columns, ignore_index=True)


def label_cell(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    operator: str,
    grid: Grid,
    neurons: Mapping[int, np.ndarray],
    threshold: float,
    null: Null,
    seed: int,
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """The activation maps of a cell's neurons, as named arrays for a file, and the heuristics table.

    Args:
        template: with the fields {a} and {b}.
        operator: its name, for messages and for the seeded shuffle.
        neurons: the neurons of each layer, by layer in ascending order.
        null: the random maps of the grid.

    Raises:
        UserError: the template breaks a rule.
    """
    limits = OperandRange(int(grid.a.min()), grid.max_operand - 1, 0, int(grid.answer.max()))
    check_template(tokenizer, template, f"template of {operator}", limits)
    maps = operand_maps(model, tokenizer, template, grid, neurons)
    logits = answer_logits(model, tokenizer, grid, neurons)
    # Every format has a shuffle of its own: the same one would keep what the formats' maps have in common.
    table = label_maps(maps, logits, grid, neurons, threshold, null, seed, f"{operator}/{template}")
    return map_files.to_arrays(maps, logits, grid, neurons), table
