"""What the page needs to add up direct effects: the factors of every problem, packed, in all formats."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.browser.packing import pack_bytes, pack_rows
from form_invariance.errors import UserError
from form_invariance.stages.neuron_effects.direct_files import DirectEffects


def in_order(texts: list[str]) -> np.ndarray:
    """The order in which answers stand on an axis: numbers by size, other answers by alphabet."""
    numbers = all(text.lstrip("-").isdigit() for text in texts)
    return np.array(
        sorted(range(len(texts)), key=lambda i: (int(texts[i]) if numbers else 0, texts[i])), dtype=int
    )


def _floats(values: np.ndarray) -> str:
    return pack_bytes(values.astype("<f4"))


def layer_starts(neurons: np.ndarray) -> np.ndarray:
    """The first of the neurons (n, 2) of each layer, as positions."""
    return np.unique(neurons[:, 0], return_index=True)[1]


def _format(problems: pd.DataFrame, found: DirectEffects, texts: list[str], rows: np.ndarray) -> dict[str, Any]:
    """One format's part: see `sums_of`."""
    order = in_order(texts)
    place = np.empty(len(order), dtype=int)
    place[order] = np.arange(len(order))
    at = {int(token): place[i] for i, token in enumerate(found.answers)}
    targets = problems["answer_token"].map(at).to_numpy()
    first = problems["model_token"].to_numpy() == problems["predicted_token"].to_numpy()
    others = {int(i): problems["predicted"].iloc[row] for i, row in enumerate(rows) if not first[row]}
    return {
        "answers": [texts[i] for i in order],
        "unit": pack_rows(found.unit_logits[:, order]),
        "written": pack_rows(found.written[rows].T),
        "finalScale": _floats(found.final_scale[rows]),
        "inputScale": pack_rows(found.input_scale[rows][:, layer_starts(found.neurons)].T),
        "target": pack_bytes(targets[rows].astype("<u2")),
        "top": pack_bytes(place[found.top[rows]].astype("<u2")),
        "topLogits": _floats(found.top_logits[rows]),
        "tops": found.top.shape[1],
        "predicted": others,
    }


def sums_of(
    problems: Mapping[str, pd.DataFrame],
    effects: Mapping[str, tuple[DirectEffects, list[str]]],
    most: int,
    where: str,
) -> dict[str, Any]:
    """The factors of one operator's direct effects.

    Args:
        problems: direct_effects table by format.
        effects: the factors and the answers' texts, by format.
        most: problems of the page; of more, evenly spaced ones are taken.
        where: model and operator, for the error.

    Returns:
        a, b: operands, or rows: the text of each row of a table; answer: the right ones; neurons: their ids,
        ``layer.neuron``; inputs: `unit_inputs` packed; stored: how many problems the files have; formats: of each,
        packed, the factors with one row a neuron (of inputScale, one a layer), the answers in the order of the
        axis, and predicted: the model's next token where it is none of the answers, by problem.

    Raises:
        UserError: the formats have other problems or neurons.
    """
    tables, parts = list(problems.values()), list(effects.values())
    key = ["a", "b", "fields"]
    same = all(one[key].reset_index(drop=True).equals(tables[0][key].reset_index(drop=True)) for one in tables)
    if not same or not all(np.array_equal(one.neurons, parts[0][0].neurons) for one, _ in parts):
        raise UserError(
            f"{where}: the formats' direct effects are of other problems or neurons; run snakemake again"
        )
    whole = tables[0]
    rows = np.unique(np.linspace(0, len(whole) - 1, min(most, len(whole))).astype(int))
    numbers = bool((whole["b"] >= 0).all())
    shown = whole.iloc[rows]
    texts = [", ".join(json.loads(fields).values()) for fields in shown["fields"]]
    return {
        **({"a": shown["a"].tolist(), "b": shown["b"].tolist()} if numbers else {"rows": texts}),
        "answer": shown["target"].tolist(),
        "neurons": [f"{layer}.{neuron}" for layer, neuron in parts[0][0].neurons.tolist()],
        "inputs": pack_rows(parts[0][0].unit_inputs),
        "stored": len(whole),
        "formats": [_format(table, *part, rows) for table, part in zip(tables, parts, strict=True)],
    }
