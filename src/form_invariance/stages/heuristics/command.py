"""Label the shared neurons of one cell with heuristics, or score activation maps from anywhere."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.errors import UserError
from form_invariance.stages.heuristics.grid_options import add_grid_arguments, grid_of
from form_invariance.stages.heuristics.names import KINDS, NULL_SETTINGS, SHARED
from form_invariance.stages.options import add_files, add_model_arguments, add_options, add_required, settings

if TYPE_CHECKING:
    from form_invariance.stages.heuristics.null import Null
    from form_invariance.stages.heuristics.pairs import Grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_draw(actions.add_parser("draw", help="choose the neurons that are labelled: shared ones and baselines"))
    _add_label(actions.add_parser("label", help="find the heuristics that a cell's shared neurons follow"))
    _add_score(actions.add_parser("score", help="score every neuron of a table of activation maps"))


def _add_draw(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--circuit", "--rankings", "--k", "--seed")
    add_files(parser, "--mean-caches", "mean caches, for the neurons' variances")
    add_options(parser, output="table of the neurons")


def _add_label(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_required(parser, str, format="the format's name")
    add_options(parser, "--template", "--seed")
    add_grid_arguments(parser)
    add_required(parser, float, threshold="score that a label needs")
    files = {"null": "random maps of the grid (heuristic-null)", "neurons": "neurons to label (heuristics draw)"}
    add_options(parser, **files)
    add_options(parser, output="heuristics table", maps_output="activation maps, as safetensors")


def _add_score(score: argparse.ArgumentParser) -> None:
    score.add_argument(
        "--reference", action="store_true", help="the published scores, faults included, without labels"
    )
    score.add_argument("--operator", required=True, choices=KINDS, help="which operator the maps are of")
    table = "Parquet table: op1, op2, result, then one column a neuron (K map; and KV map, if none is given)"
    add_options(score, activations=table, output="table of scores")
    score.add_argument(
        "--result-activations", type=Path, help="the same form, for the result heuristics (KV maps)"
    )
    add_required(score, int, max_operand="operands are below it")
    score.add_argument("--threshold", type=float, default=0.6, help="share beyond chance that a label needs")


def run(arguments: argparse.Namespace) -> None:
    {"draw": _draw, "label": _label, "score": _score}[arguments.action](arguments)


def _draw(arguments: argparse.Namespace) -> None:
    import numpy as np

    from form_invariance.stages.circuit.table import CIRCUIT, neurons_of
    from form_invariance.stages.heuristics.baselines import labelled_neurons, mean_effects
    from form_invariance.stages.heuristics.table import LABELLED_NEURONS
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tables, read_tensors, write_table
    from form_invariance.tables.keys import by_key, common_keys

    shared = neurons_of(read_table(arguments.circuit, CIRCUIT), arguments.k)
    caches = [read_tensors(path, "mean_cache")[0] for path in arguments.mean_caches]
    layers = shared["layer"].unique().tolist()
    variance = {layer: np.mean([cache[f"variance.{layer}"] for cache in caches], axis=0) for layer in layers}
    widths = {layer: len(variances) for layer, variances in variance.items()}
    effects = mean_effects(read_tables(by_key(arguments.rankings, "format"), RANKING), widths)
    keys = common_keys(arguments.circuit)
    table = labelled_neurons(shared, variance, effects, arguments.seed, keys["operator"])
    write_table(table, arguments.output, LABELLED_NEURONS, settings(arguments, "k", "seed"), keys)


def _read_null(arguments: argparse.Namespace, grid: "Grid") -> "Null":
    from form_invariance.stages.heuristics import null
    from form_invariance.tables.files import read_tensors

    arrays, provenance = read_tensors(arguments.null, null.KIND)
    for name, value in settings(arguments, *NULL_SETTINGS).items():
        if provenance.get(name) != value:
            raise UserError(
                f"{arguments.null}: the random maps are of {name} {provenance.get(name)}, not {value}; draw them "
                f"with the same --{name.replace('_', '-')}"
            )
    return null.from_arrays(arrays, grid)


def _label(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.labels import label_cell
    from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.tables.files import read_table, write_table, write_tensors
    from form_invariance.tables.keys import common_keys

    model, tokenizer = load_model(arguments)
    grid = grid_of(arguments)
    neurons = read_table(arguments.neurons, LABELLED_NEURONS)
    keys = {**common_keys(arguments.neurons), "format": arguments.format}
    maps, table = label_cell(
        model,
        tokenizer,
        arguments.template,
        keys["operator"],
        grid,
        neurons,
        arguments.threshold,
        _read_null(arguments, grid),
        arguments.seed,
    )
    provenance = {
        **model_provenance(arguments, "template", "digit", "max_operand", "threshold", "seed"),
        "neurons": int((neurons["neurons"] == SHARED).sum()),
    }
    write_tensors(maps, arguments.maps_output, map_files.KIND, provenance, keys)
    write_table(table, arguments.output, HEURISTICS, provenance, keys)


def _score(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.heuristics import maps, published, strict
    from form_invariance.stages.heuristics.table import PUBLISHED_SCORES, STRICT_SCORES
    from form_invariance.tables.files import write_table

    grid, names, operand_maps, result_maps = maps.read_both(
        arguments.activations,
        arguments.result_activations,
        arguments.operator,
        arguments.max_operand,
        arguments.threshold,
    )
    provenance = {"operator": arguments.operator, "max_operand": arguments.max_operand}
    if arguments.reference:
        maps.check_whole(arguments.activations, grid)
        table, schema = published.score(operand_maps, result_maps, grid), PUBLISHED_SCORES
        provenance["mode"] = "reference"
    else:
        table, schema = strict.score(operand_maps, result_maps, grid, arguments.threshold), STRICT_SCORES
        provenance |= {"threshold": arguments.threshold, "mode": "strict"}
    table.insert(1, "column", [names[neuron] for neuron in table["neuron"]])
    write_table(table, arguments.output, schema, provenance)
