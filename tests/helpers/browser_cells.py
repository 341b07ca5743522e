"""Cells with 300 shared neurons for the browser's tests: random tables, and the pages made of them."""

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.beyond.neuron_effects.table import NEURON_EFFECTS, PROMOTED_TOKENS, ROW_ACTIVATIONS
from form_invariance.browser import neurons
from form_invariance.cli import main
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.pairs import make_grid
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_tensors, write_table, write_tensors

FORMATS = ["symbolic", "code", 'wo"rd <i>']
OPERATORS = {"addition": "a + b", "division": "a // b"}
WORDS = "plural"
ASKED = {**OPERATORS, WORDS: "answer in plural.csv"}
MODEL, OTHER = "sha&red <b>", "separate"
LAYERS = {3: np.arange(0, 300, 2), 5: np.arange(7, 157)}
PAIRS = [(layer, int(neuron)) for layer, own in LAYERS.items() for neuron in own]
FILES = {
    "--rankings": "ranking.parquet",
    "--neuron-effects": "neuron_effects.parquet",
    "--heuristics": "heuristics.parquet",
    "--maps": "activation_maps.safetensors",
    "--row-activations": "row_activations.parquet",
}


def heuristics_table(format_number):
    """Every second neuron is labelled in one family in all formats, every fourth in another in the first alone."""
    rows = []
    for number, (layer, neuron) in enumerate(PAIRS):
        label = ("op1_range_0_9", "operand range", number % 2 == 0)
        extra = ("result_1mod3", "result modulo", number % 4 == 0 and format_number == 0)
        for mode in ("strict", "reference"):
            for heuristic, family, labelled in (label, extra):
                score = (0.9 if labelled else 0.4) - 0.01 * format_number
                rows.append((mode, "observed", layer, neuron, heuristic, family, score, 0.1, labelled))
        if number % 8 == 0:
            rows.append(("reference", "shuffled", layer, neuron, "op1_range_0_9", "operand range", 0.7, 0.1, True))
    columns = ["mode", "activations", "layer", "neuron", "heuristic", "family", "score", "base_rate", "label"]
    return pd.DataFrame(rows, columns=columns).assign(neurons="shared", lift=4.0, p_value=np.nan)


def ranking_table(rng):
    table = pd.DataFrame(PAIRS, columns=["layer", "neuron"])
    effects = rng.normal(size=len(table))
    table["rank"] = (-pd.Series(effects)).groupby(table["layer"]).rank().astype(int)
    rest = ("ie_std", "ie_median", "ie_trimmed_mean", "probability_change", "attribution_score")
    return table.assign(ie_mean=effects, **dict.fromkeys(rest, 0.25), attribution_rank=1)


def write_cell(folder, expression, number, seed):
    rng = np.random.default_rng(seed)
    grid = make_grid(expression, 40)
    k_maps = rng.normal(size=(len(PAIRS), len(grid.a))).astype(np.float32)
    logits = np.random.default_rng(9).normal(size=(len(PAIRS), grid.answer.max() + 1)).astype(np.float32)
    tensors = map_files.to_arrays(k_maps, logits[:, grid.answer], grid, LAYERS)
    write_tensors(tensors, folder / "activation_maps.safetensors", map_files.KIND, {}, keys_of(folder))
    write_table(heuristics_table(number), folder / "heuristics.parquet", HEURISTICS, {}, keys_of(folder))
    write_common(folder, rng)


def write_common(folder, rng):
    write_table(ranking_table(rng), folder / "ranking.parquet", RANKING, {}, keys_of(folder))
    effects = pd.DataFrame(PAIRS, columns=["layer", "neuron"])
    for name in list(NEURON_EFFECTS.columns)[2:]:
        effects[name] = rng.normal(size=len(effects))
    write_table(effects, folder / "neuron_effects.parquet", NEURON_EFFECTS, {}, keys_of(folder))


def write_words(folder, seed):
    """A cell of a table of words: no heuristics and maps, but activations on 30 rows."""
    rng = np.random.default_rng(seed)
    write_common(folder, rng)
    rows = pd.DataFrame({"row": range(30), "target": [f"w{n}s" for n in range(30)]})
    rows["fields"] = [json.dumps({"word": f"w{n}"}) for n in range(30)]
    table = pd.DataFrame(PAIRS, columns=["layer", "neuron"]).merge(rows, how="cross")
    table["activation"] = rng.normal(size=len(table))
    write_table(
        table[list(ROW_ACTIVATIONS.columns)],
        folder / "row_activations.parquet",
        ROW_ACTIVATIONS,
        {},
        keys_of(folder),
    )


def write_tokens(path):
    """Three tokens of either direction for every neuron, among them hostile ones."""
    rows = [
        (layer, neuron, direction, rank, rank, text, sign / rank)
        for layer, neuron in PAIRS
        for direction, sign in (("promotes", 1), ("suppresses", -1))
        for rank, text in enumerate((f" {layer}.{neuron}", "\n", "</script><b>"), 1)
    ]
    write_table(
        pd.DataFrame(rows, columns=list(PROMOTED_TOKENS.columns)), path, PROMOTED_TOKENS, {}, {"model": MODEL}
    )


def keys_of(folder):
    """The keys of a cell, from its folder."""
    return dict(zip(("model", "format", "operator"), folder.parts[-3:], strict=True))


def tables_of(folder):
    """The options of the files of cells that the browser reads."""
    words = []
    for option, file in FILES.items():
        paths = [folder / name / operator / file for name in FORMATS for operator in ASKED]
        words += [option, *map(str, filter(Path.exists, paths))]
    return words


def data_of(path):
    text = path.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0]
    return json.loads(text)


def unpack_bytes(text, dtype):
    """What `pack_bytes` packed, as the page's script unpacks it; (n,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=dtype)


def read_cell(folder):
    """A cell of an expression as the page builder takes it."""
    return neurons.Cell(
        ranking=pd.read_parquet(folder / "ranking.parquet"),
        effects=pd.read_parquet(folder / "neuron_effects.parquet"),
        heuristics=pd.read_parquet(folder / "heuristics.parquet"),
        maps=map_files.from_arrays(read_tensors(folder / "activation_maps.safetensors", map_files.KIND)[0]),
    )


def write_results(folder):
    """Tables of two models and the pages made of them, through the command; the numbers are the same."""
    for model in (MODEL, OTHER):
        for f, name in enumerate(FORMATS):
            for o, (operator, expression) in enumerate(OPERATORS.items()):
                write_cell(folder / model / name / operator, expression, f, 10 * o + f)
            write_words(folder / model / name / WORDS, 30 + f)
        write_tokens(folder / model / "promoted_tokens.parquet")
        words = ["--models", MODEL, OTHER, *tables_of(folder / model), "--k", "200", "--asked", json.dumps(ASKED)]
        words += ["--promoted-tokens", str(folder / model / "promoted_tokens.parquet")]
        assert main(["browser", *words, "--output", str(folder / f"browser/{model}.html")]) == 0
    return folder
