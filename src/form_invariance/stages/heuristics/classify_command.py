"""Heuristics of the shared neurons in one cell."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_model_arguments, load_model, model_provenance

HELP = "find the heuristics that the shared neurons follow in one format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    parser.add_argument("--operator", required=True, help="the operator's name, for messages and seeded choices")
    parser.add_argument("--expression", required=True, help="the operator's expression, for instance 'a // b'")
    parser.add_argument("--template", required=True, help="prompt with the fields {a} and {b}")
    parser.add_argument("--circuit", type=Path, required=True, help="circuit table of the operator")
    parser.add_argument("--k", type=int, required=True, help="circuit size whose neurons are classified")
    parser.add_argument("--max-operand", type=int, required=True, help="operands of the grid are below it")
    parser.add_argument("--threshold", type=float, default=0.6, help="score that a label needs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the shuffled activations")
    parser.add_argument("--output", type=Path, required=True, help="heuristics table")
    parser.add_argument("--maps-output", type=Path, required=True, help="activation maps, as safetensors")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.problems.operands import OperandRange
    from form_invariance.problems.prompts import check_template
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.heuristics import activations, map_files
    from form_invariance.stages.heuristics.labels import label_cell
    from form_invariance.stages.heuristics.pairs import make_grid
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.tables.files import read_table, write_table, write_tensors

    model, tokenizer = load_model(arguments)
    grid = make_grid(arguments.expression, arguments.max_operand)
    limits = OperandRange(int(grid.a.min()), arguments.max_operand - 1, 0, int(grid.answer.max()))
    check_template(tokenizer, arguments.template, f"template of {arguments.operator}", limits)
    circuit = read_table(arguments.circuit, CIRCUIT)
    chosen = circuit[circuit["k"] == arguments.k].sort_values(["layer", "neuron"])
    neurons = {int(layer): rows["neuron"].to_numpy() for layer, rows in chosen.groupby("layer")}
    maps = activations.operand_maps(model, tokenizer, arguments.template, grid, neurons)
    logits = activations.answer_logits(model, tokenizer, grid, neurons)
    # Formats have their own shuffles: in one and the same, what their maps have in common would stay.
    cell = f"{arguments.operator}/{arguments.template}"
    table = label_cell(maps, logits, grid, neurons, arguments.threshold, arguments.seed, cell)
    provenance = {
        **model_provenance(arguments),
        "operator": arguments.operator,
        "template": arguments.template,
        "k": arguments.k,
        "max_operand": arguments.max_operand,
        "threshold": arguments.threshold,
        "neurons": len(maps),
        "seed": arguments.seed,
    }
    write_tensors(
        map_files.to_arrays(maps, logits, grid, neurons), arguments.maps_output, map_files.KIND, provenance
    )
    write_table(table, arguments.output, HEURISTICS, provenance)
