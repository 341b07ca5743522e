"""Write one problem's direct effects as a graph for Neuronpedia's viewer."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.errors import UserError
from form_invariance.stages.options import add_options, add_required, add_tokenizer_arguments

if TYPE_CHECKING:
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_tokenizer_arguments(parser)
    add_options(parser, effects="direct_effects.safetensors of a cell", problems="its direct_effects.parquet")
    parser.add_argument("--heuristics", type=Path, help="its heuristics.parquet; neurons of a family form a group")
    add_required(parser, int, a="first operand; of a table, the number of the row, from 0")
    parser.add_argument("--b", type=int, default=-1, help="second operand; none of a table")
    parser.add_argument("--slug", help="name of the graph; default: from operator and problem")
    parser.add_argument("--scan", help="name of the model in the viewer; default: the last part of --model")
    add_options(parser, output="JSON file")


def run(arguments: argparse.Namespace) -> None:
    import json

    from form_invariance.browser.neuronpedia_graph import graph
    from form_invariance.model.files import read_config, resolve
    from form_invariance.problems.tasks import WHOLE, prompts_of
    from form_invariance.stages.heuristics.names import SHARED
    from form_invariance.stages.heuristics.table import HEURISTICS, strict_labels
    from form_invariance.stages.neuron_effects.direct_files import KIND, from_arrays
    from form_invariance.stages.neuron_effects.table import DIRECT_EFFECTS
    from form_invariance.stages.tokenizer_options import load_tokenizer_alone
    from form_invariance.tables.files import provenance_of, read_table, read_tensors, write_text

    table, made = read_table(arguments.problems, DIRECT_EFFECTS), provenance_of(arguments.problems)
    found, texts = from_arrays(read_tensors(arguments.effects, KIND)[0])
    if len(table) != len(found.written) or table["predicted_token"].tolist() != found.predicted.tolist():
        raise UserError(f"{arguments.effects} and {arguments.problems} are of different cells; give those of one")
    row = _row(table, arguments)
    tokenizer = load_tokenizer_alone(arguments)
    (prompt,) = prompts_of(made["template"], table.iloc[[row]].assign(digit=made.get("digit", WHOLE)))
    ids = tokenizer.encode_batch([prompt])[0].tolist()
    labelled: dict[tuple[int, int], list[str]] = {}
    if arguments.heuristics:
        heuristics = read_table(arguments.heuristics, HEURISTICS)
        shared = strict_labels(heuristics[heuristics["neurons"] == SHARED])
        rows = shared[["layer", "neuron", "family"]].drop_duplicates().sort_values("family")
        for layer, neuron, family in zip(*(rows[name].tolist() for name in rows), strict=True):
            labelled.setdefault((layer, neuron), []).append(family)
    problem = f"{arguments.a}-{arguments.b}" if arguments.b >= 0 else str(arguments.a)
    names = {
        "slug": arguments.slug or f"{made['operator']}-{problem}",
        "scan": arguments.scan or arguments.model.rstrip("/").split("/")[-1].removeprefix("embedded:"),
        "prompt": prompt,
    }
    layers = read_config(resolve(arguments.model, arguments.revision))[0].n_layers
    tokens = [(token, tokenizer.text(token)) for token in ids]
    made_graph = graph(found, texts, row, tokens, layers, labelled, names)
    write_text(arguments.output, json.dumps(made_graph, allow_nan=False))


def _row(table: "pd.DataFrame", arguments: argparse.Namespace) -> int:
    """The row of the problem that --a and --b name.

    Raises:
        UserError: it is not in the table.
    """
    if table.empty:
        raise UserError(f"{arguments.problems}: no neuron is shared in this cell, so there is no graph of it")
    distance = (table["a"] - arguments.a).abs() + (table["b"] - arguments.b).abs()
    nearest = table.loc[distance.idxmin()]
    if distance.min():
        near = f"--a {nearest['a']}" + (f" --b {nearest['b']}" if nearest["b"] >= 0 else "")
        raise UserError(f"{arguments.problems} has no problem with these operands; the nearest one is {near}")
    return int(distance.argmin())
