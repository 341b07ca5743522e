"""The heuristics table of one cell: both modes, observed and shuffled activations."""

from collections.abc import Mapping
from itertools import chain

import numpy as np
import pandas as pd

from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.randomness import generator
from form_invariance.stages.heuristics import map_files, published, strict
from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.baselines import directions, mixed_neurons, smooth_noise
from form_invariance.stages.heuristics.classes import members_of
from form_invariance.stages.heuristics.names import DIGIT, DIRECTION, NOISE, SHARED, family
from form_invariance.stages.heuristics.null import Null
from form_invariance.stages.heuristics.pairs import Grid, grid_prompts, published_part
from form_invariance.stages.heuristics.table import HEURISTICS


def _published(maps: np.ndarray, kv: np.ndarray, grid: Grid, threshold: float, floor: float) -> pd.DataFrame:
    """Scores of the published algorithm on its own grid, with base rates."""
    keep, grid_part = published_part(grid)
    table = published.score(maps[:, keep], kv[:, keep], grid_part, floor)
    # A pattern may have a row of either end; a neuron carries it once.
    table = table.sort_values("score", ascending=False)
    table = table.drop_duplicates(["neuron", "heuristic"])
    base = {name: members_of(name, grid_part).mean() for name in table["heuristic"].unique()}
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
    neurons: pd.DataFrame,
    threshold: float,
    null: Null,
    seed: int,
    name: str,
) -> pd.DataFrame:
    """The heuristics table of a cell.

    Args:
        maps: K maps, (neurons, N).
        logits: logit of the pair's answer by neuron, (neurons, N): KV map = K map x logit.
        neurons: what each map is of, columns neurons, layer, neuron, in the order of the maps.
        threshold: score that a label needs.
        null: the random maps of the grid.
        name: the cell's name, for the seeded shuffle.

    Returns:
        Rows with at least half the threshold as score; of the shuffled activations, which only the shared neurons
        have, the labels alone.
    """
    if not len(maps):
        return pd.DataFrame(columns=list(HEURISTICS.columns)).astype(
            {"layer": "int64", "neuron": "int64", "label": bool}
        )
    shared = (neurons["neurons"] == SHARED).to_numpy()
    tables = []
    for activations, chosen in (("observed", np.ones(len(maps), dtype=bool)), ("shuffled", shared)):
        k_maps = maps if activations == "observed" else shuffled(maps[chosen], seed, name)
        if not len(k_maps):
            continue
        kv_maps = k_maps * logits[chosen]
        floor = threshold / 2 if activations == "observed" else threshold
        scored = [("strict", strict.score(k_maps, kv_maps, grid, threshold, floor, null))]
        if grid.kind != DIGIT:  # The published algorithm knows no digits.
            scored.append(("reference", _published(k_maps, kv_maps, grid, threshold, floor)))
        for mode, table in scored:
            table = table if activations == "observed" else table[table["label"]]
            identities = neurons[chosen].iloc[table["neuron"].to_numpy()].reset_index(drop=True)
            table = table.drop(columns="neuron").reset_index(drop=True).join(identities)
            tables.append(table.assign(mode=mode, activations=activations, family=table["heuristic"].map(family)))
    columns = ["mode", "neurons", "activations", "layer", "neuron", "heuristic"]
    return pd.concat(tables).sort_values(columns, ignore_index=True)


def label_cell(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    operator: str,
    grid: Grid,
    neurons: pd.DataFrame,
    threshold: float,
    null: Null,
    seed: int,
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """The activation maps of a cell's neurons, as named arrays for a file, and the heuristics table.

    Args:
        template: with the fields {a} and {b}.
        operator: its name, for messages and for the seeded choices.
        neurons: columns neurons, layer, neuron.
        null: the random maps of the grid.

    Raises:
        UserError: the template breaks a rule.
    """
    prompts, answer_tokens = grid_prompts(grid, tokenizer, template, f"template of {operator}")
    # Every format has a shuffle and noise of its own: the same would keep what the formats' maps have in common.
    name = f"{operator}/{template}"
    neurons = neurons.sort_values(["neurons", "layer", "neuron"], ignore_index=True)
    kinds = [str(kind) for kind in neurons["neurons"].unique()]
    layers = {kind: _by_layer(neurons[neurons["neurons"] == kind]) for kind in kinds}
    mixed = mixed_neurons([*layers.get(DIRECTION, {})], model.config.d_mlp, seed, operator)
    read = [group for kind, group in layers.items() if kind not in (DIRECTION, NOISE)] + [mixed]
    # The model runs once, on the neurons of all kinds.
    every = {
        layer: np.unique(np.concatenate([group[layer] for group in read if layer in group]))
        for layer in sorted({*chain(*read)})
    }
    k_maps, logits = operand_maps(model, tokenizer, prompts, every), answer_logits(model, answer_tokens, every)
    start = dict(zip(every, np.cumsum([0, *map(len, every.values())]), strict=False))

    def of(wanted: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Maps and logits of some of the neurons."""
        rows = [start[layer] + np.searchsorted(every[layer], numbers) for layer, numbers in wanted.items()]
        place = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
        return k_maps[place], logits[place]

    def of_kind(kind: str) -> tuple[np.ndarray, np.ndarray]:
        if kind == NOISE:
            noise = smooth_noise(grid, int((neurons["neurons"] == NOISE).sum()), seed, name)
            return noise, np.ones_like(noise)
        if kind != DIRECTION:
            return of(layers[kind])
        drawn = [
            directions(*of({layer: mixed[layer]}), len(numbers), seed, operator, layer)
            for layer, numbers in layers[kind].items()
        ]
        return np.concatenate([one[0] for one in drawn]), np.concatenate([one[1] for one in drawn])

    parts = [of_kind(kind) for kind in kinds] or [of({})]
    maps, written = (np.concatenate([pair[part] for pair in parts]) for part in (0, 1))
    table = label_maps(maps, written, grid, neurons, threshold, null, seed, name)
    shared = layers.get(SHARED, {})
    arrays = map_files.to_arrays(*of(shared), grid, shared) | map_files.sample(maps, grid, seed, operator)
    return arrays, table


def _by_layer(rows: pd.DataFrame) -> dict[int, np.ndarray]:
    """Neurons by layer, both in ascending order."""
    return {int(str(layer)): part["neuron"].to_numpy() for layer, part in rows.groupby("layer")}
