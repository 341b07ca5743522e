"""The browser's page: one HTML file that contains all its data, in less than 8 MB."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib import colormaps
from matplotlib.colors import to_hex

from form_invariance.browser.neurons import CellTables, neurons_of, tokens_of
from form_invariance.errors import UserError
from form_invariance.page.make import make_page
from form_invariance.stages.heuristics import map_files

LEVELS = 64
"""Steps of the page's colour scale; the eye cannot distinguish more."""
_LARGEST = 7 * 10**6 + 900_000
"""Largest size of a page in bytes, without its scripts."""
_SCRIPTS = ("page.js", "list.js", "maps.js", "neuron.js", "keys.js")


def pack_bytes(data: np.ndarray) -> str:
    """Base64 of the deflated bytes of an array."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(data).tobytes(), 9)).decode()


def pack_maps(maps: np.ndarray) -> dict[str, Any]:
    """One neuron's K maps of all formats on one scale.

    Args:
        maps: (formats, N), pairs in lexicographic order.

    Returns:
        low, high: the scale's ends; maps: packed bytes, (formats, N), each the difference to the pair before
        modulo `LEVELS`, because neighbouring pairs are alike.
    """
    low, high = float(maps.min()), float(maps.max())
    step = (high - low) / (LEVELS - 1) or 1.0
    codes = np.rint((maps - low) / step).astype(np.int16)
    differences = np.diff(codes, axis=1, prepend=0) % LEVELS
    return {"low": low, "high": high, "maps": pack_bytes(differences.astype(np.uint8))}


def operator_data(cells: Mapping[str, CellTables], where: str) -> dict[str, Any]:
    """The page's data of one operator, without the heat maps.

    Args:
        cells: by format.
        where: model and operator, for errors.

    Returns:
        neurons: as `neurons_of`. With maps also a, b: the pairs' operands, and place: the index of each pair's
        answer in answers, all packed as 16-bit integers; answers; size: the largest operand + 1.
    """
    neurons, maps = neurons_of(cells, where), next(iter(cells.values())).maps
    if maps is None:
        return {"neurons": neurons}
    answers, answer_index = np.unique(maps.answer, return_inverse=True)
    short = np.dtype("<u2")
    return {
        "neurons": neurons,
        "a": pack_bytes(maps.a.astype(short)),
        "b": pack_bytes(maps.b.astype(short)),
        "place": pack_bytes(answer_index.astype(short)),
        "answers": answers.tolist(),
        "size": int(max(maps.a.max(), maps.b.max())) + 1,
    }


def add_maps(
    operators: Mapping[str, dict[str, Any]], cells: Mapping[str, Mapping[str, CellTables]], room: int
) -> None:
    """Give neurons their heat maps, the best of every operator first, as long as there is room.

    Args:
        operators: from `operator_data`; a neuron's entry receives `maps` (from `pack_maps`) and `logits`, the
            logit that a unit of the neuron adds to each answer, packed as 32-bit floats.
        cells: by operator and format.
        room: bytes that are left for the maps.
    """
    mapped = {name: [cell.maps for cell in by_format.values() if cell.maps] for name, by_format in cells.items()}
    places = {name: np.unique(maps[0].answer, return_index=True)[1] for name, maps in mapped.items() if maps}
    queues = [[(name, neuron) for neuron in operators[name]["neurons"]] for name in places]
    for turn in zip_longest(*queues):
        for name, neuron in filter(None, turn):
            maps = pack_maps(np.stack([format_maps.maps[neuron["row"]] for format_maps in mapped[name]]))
            logits = pack_bytes(mapped[name][0].logits[neuron["row"], places[name]].astype("<f4"))
            room -= len(maps["maps"]) + len(logits)
            if room < 0:
                return
            neuron |= {"maps": maps, "logits": logits}


def browser_page(
    model: str,
    models: Sequence[str],
    cells: Mapping[str, Mapping[str, CellTables]],
    tokens: pd.DataFrame,
    k: int,
    questions: Mapping[str, str],
) -> str:
    """The whole page of one model.

    Args:
        models: names of all models, whose pages are in the same folder.
        cells: by operator and format.
        tokens: promoted_tokens table.
        k: circuit size whose shared neurons are shown.
        questions: what each operator asks, in words.
    """
    operators = {name: operator_data(by_format, f"{model}, {name}") for name, by_format in cells.items()}
    promoted = tokens_of(tokens)
    if any(
        f"{neuron['layer']}.{neuron['neuron']}" not in promoted
        for operator in operators.values()
        for neuron in operator["neurons"]
    ):
        raise UserError(f"{model}: the table of promoted tokens has other neurons; run snakemake again")
    add_maps(operators, cells, _LARGEST - len(json.dumps([operators, promoted])))
    shown = {
        "model": model,
        "formats": list(next(iter(cells.values()))),
        "k": k,
        "tokens": promoted,
        "levels": LEVELS,
        "colours": [to_hex(colour) for colour in colormaps["cividis"](np.linspace(0, 1, LEVELS))],
        "operators": {name: {**data, "asked": questions[name]} for name, data in operators.items()},
    }
    # A closing tag inside the data would end the script that holds it.
    data = json.dumps(shown, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return make_page(
        Path(__file__).parent,
        model=model,
        models=models,
        k=k,
        levels=LEVELS,
        mapped=any("size" in data for data in operators.values()),
        stored=map_files.LEVELS + 1,
        scripts=_SCRIPTS,
        data=Markup(data),
    )
