"""Cells with 300 shared neurons for the browser's tests: random tables, and the pages made of them."""

import base64
import json
import zlib

import numpy as np
import pandas as pd

from form_invariance.browser import neurons
from form_invariance.cli import main
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.pairs import make_grid
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.neuron_effects.direct_files import KIND, DirectEffects, from_arrays, summed, to_arrays
from form_invariance.stages.neuron_effects.table import DIRECT_EFFECTS, NEURON_EFFECTS
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_tensors, write_table, write_tensors

FORMATS = ["symbolic", "code", 'wo"rd <i>']
OPERATORS = {"addition": "a + b", "division": "a // b"}
MODEL, OTHER = "sha&red <b>", "separate"
LAYERS = {3: np.arange(0, 300, 2), 5: np.arange(7, 157)}
PROBLEMS = 60
PAIRS = [(layer, int(neuron)) for layer, own in LAYERS.items() for neuron in own]
TENSORS = {map_files.KIND: "activation_maps.safetensors", KIND: "direct_effects.safetensors"}
FILES = {
    "ranking": "ranking.parquet",
    "neuron_effects": "neuron_effects.parquet",
    "direct_effects": "direct_effects.parquet",
    "direct_effect_factors": "direct_effects.safetensors",
    "heuristics": "heuristics.parquet",
    "activation_maps": "activation_maps.safetensors",
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
    rest = ("ie_std", "ie_median", "ie_trimmed_mean", "attribution_score")
    return table.assign(ie_mean=effects, **dict.fromkeys(rest, 0.25), attribution_rank=1)


def write_cell(folder, expression, number, seed):
    rng = np.random.default_rng(seed)
    grid = make_grid(expression, 40)
    k_maps = rng.normal(size=(len(PAIRS), len(grid.a))).astype(np.float32)
    logits = np.random.default_rng(9).normal(size=(len(PAIRS), grid.answer.max() + 1)).astype(np.float32)
    tensors = map_files.to_arrays(k_maps, logits[:, grid.answer], grid, LAYERS)
    write_tensors(tensors, folder / "activation_maps.safetensors", map_files.KIND, {})
    write_table(ranking_table(rng), folder / "ranking.parquet", RANKING, {})
    write_table(heuristics_table(number), folder / "heuristics.parquet", HEURISTICS, {})
    effects = pd.DataFrame(PAIRS, columns=["layer", "neuron"])
    for name in list(NEURON_EFFECTS.columns)[2:]:
        effects[name] = rng.normal(size=len(effects))
    write_table(effects, folder / "neuron_effects.parquet", NEURON_EFFECTS, {})
    drawn = np.random.default_rng(3).choice(len(grid.a), PROBLEMS, replace=False)
    problems = pd.DataFrame({"a": grid.a[drawn], "b": grid.b[drawn], "answer": grid.answer[drawn]})
    texts = [str(answer) for answer in np.unique(grid.answer)]
    write_direct_effects(folder, problems.assign(target=problems["answer"].astype(str)), texts, rng)


def write_direct_effects(folder, problems, texts, rng):
    """Random factors of a cell's problems (columns a, b, answer, target), and the table that follows from them."""
    n, p, tokens = len(PAIRS), len(problems), 7 + rng.permutation(len(texts))
    later = np.less.outer(*2 * [[layer for layer, _ in PAIRS]])
    top = rng.permuted(np.tile(np.arange(len(texts)), (p, 1)), axis=1)[:, :5]
    found = DirectEffects(
        neurons=np.array(PAIRS),
        answers=tokens,
        written=rng.normal(size=(p, n)).astype(np.float32),
        unit_logits=rng.normal(size=(n, len(texts))).astype(np.float32),
        final_scale=rng.uniform(0.1, 0.5, p).astype(np.float32),
        unit_inputs=(rng.normal(size=(n, n)) * later).astype(np.float32),
        input_scale=np.repeat(rng.uniform(0.1, 0.5, (p, 2)), list(map(len, LAYERS.values())), axis=1).astype("f4"),
        top=top,
        top_logits=-np.sort(-rng.normal(size=top.shape)).astype(np.float32),
        log_total=rng.uniform(5, 6, p).astype(np.float32),
        predicted=np.where(rng.random(p) < 0.2, 5000, tokens[top[:, 0]]),
    )
    direct = tokens[summed(found).argmax(1)]
    found.top[: p // 4, 0] = summed(found)[: p // 4].argmax(1)  # else hardly a problem has these two the same
    table = problems.assign(
        fields=[json.dumps({"word": f"w{a}"}) for a in problems["a"]],
        answer_token=problems["target"].map(dict(zip(texts, tokens, strict=True))),
        predicted_token=found.predicted,
        predicted=["the" if token == 5000 else "answer" for token in found.predicted],
        model_token=tokens[found.top[:, 0]],
        direct_token=direct,
        first=tokens[found.top[:, 0]] == direct,
    )
    write_table(table, folder / "direct_effects.parquet", DIRECT_EFFECTS, {})
    write_tensors(to_arrays(found, texts), folder / "direct_effects.safetensors", KIND, {})


def tables_of(folder):
    """NAME/FORMAT/OPERATOR=FILE of every table that the browser reads."""
    return [
        f"{table}/{name}/{operator}={folder / name / operator / file}"
        for table, file in FILES.items()
        for name in FORMATS
        for operator in OPERATORS
    ]


def data_of(path):
    text = path.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0]
    return json.loads(text)


def unpack_bytes(text, dtype):
    """What `pack_bytes` packed, as the page's script unpacks it; (n,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=dtype)


def read_cell(folder):
    """A cell as the page builder takes it."""
    arrays = {kind: read_tensors(folder / file, kind)[0] for kind, file in TENSORS.items()}
    tables = {name: pd.read_parquet(folder / f"{name}.parquet") for name in ("ranking", "heuristics")}
    return neurons.Cell(
        **tables,
        effects=pd.read_parquet(folder / "neuron_effects.parquet"),
        problems=pd.read_parquet(folder / "direct_effects.parquet"),
        direct=from_arrays(arrays[KIND]),
        maps=map_files.from_arrays(arrays[map_files.KIND]),
    )


def write_results(folder):
    """Tables of a model and the page made of them, through the command; and the page of another with the same."""
    for o, (operator, expression) in enumerate(OPERATORS.items()):
        for f, name in enumerate(FORMATS):
            write_cell(folder / MODEL / name / operator, expression, f, 10 * o + f)
    words = ["--models", MODEL, OTHER, "--tables", *tables_of(folder / MODEL), "--k", "200"]
    words += ["--operators", *(f"{name}={text}" for name, text in OPERATORS.items())]
    for model in (MODEL, OTHER):
        assert main(["browser", "--model", model, *words, "--output", str(folder / f"browser/{model}.html")]) == 0
    return folder


def drawn_curve(tab, name="now", panel=0):
    """The values that a panel's curve shows, read from its points."""
    figure = tab.query_selector_all(".panel")[panel].query_selector("svg.curve")
    points = figure.query_selector(f"polyline.{name}").get_attribute("points").split()
    low, high = (float(figure.get_attribute(f"data-{end}")) for end in ("low", "high"))
    return high - (np.array([float(point.split(",")[1]) for point in points]) - 10) / 180 * (high - low)
