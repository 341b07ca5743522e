"""Exact indirect effect of every attention head at the last token, and what it attends to, for one operator."""

import argparse
from dataclasses import asdict
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import add_keyed, add_model_arguments, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_keyed(parser, "--datasets", "FORMAT=FILE", "dataset table of every format")
    add_keyed(parser, "--corrupt-tables", "FORMAT=FILE", "corrupt partners of every format")
    add_required(parser, Path, "+", output="heads tables, one for each dataset, in their order")
    add_options(parser, effects_output="effects by prompt (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.heads.compute import heads_table, measure_cell
    from form_invariance.stages.heads.table import HEADS
    from form_invariance.stages.model_options import load_model, model_provenance, readouts_of
    from form_invariance.tables.files import write_table, write_tensors
    from form_invariance.tables.progress import Progress

    datasets, partners = arguments.datasets, arguments.corrupt_tables
    if list(partners) != list(datasets) or len(arguments.output) != len(datasets):
        raise UserError(
            "--datasets, --corrupt-tables and --output: give one of each for every format, in one order"
        )
    model, tokenizer = load_model(arguments)
    cells = {name: read_train(path, partners[name], tokenizer, model.device) for name, path in datasets.items()}
    heads = model.config.n_layers * model.config.n_heads
    progress = Progress(heads * sum(len(train.tokens) for train in cells.values()), "patches")
    provenance = model_provenance(arguments)
    readouts = readouts_of(arguments)
    tensors = {}
    for (name, train), output in zip(cells.items(), arguments.output, strict=True):
        measured = measure_cell(model, tokenizer, train, progress.add, readouts)
        write_table(heads_table(measured), output, HEADS, {**provenance, "prompts": len(train.tokens)})
        tensors[name] = measured.effects
    write_tensors(
        tensors,
        arguments.effects_output,
        "head_effects",
        {**provenance, "formats": list(cells), "readouts": asdict(readouts)},
    )
