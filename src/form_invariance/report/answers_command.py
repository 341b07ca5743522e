"""Answer the report's questions about one model from its tables."""

import argparse

from form_invariance.stages.options import add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stages", nargs="+", required=True, help="stages whose questions are answered")
    tables = "the tables that the answers need"
    parser.add_argument("--tables", nargs="+", required=True, metavar="NAME/KEY=FILE", help=tables)
    add_required(parser, int, k="circuit size that the sentences speak of")
    add_options(parser, output="answers, as JSON")


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import replace
    from importlib import import_module

    from form_invariance.stages.answers import method_of, write_answers
    from form_invariance.tables.inputs import input_paths, read_inputs

    modules = [import_module(f"form_invariance.stages.{stage}.answer") for stage in arguments.stages]
    every = {name: one for module in modules for name, one in module.INPUTS.items()}
    paths = input_paths(arguments.tables, every, "these stages")
    answers = []
    for stage, module in zip(arguments.stages, modules, strict=True):
        first, *others = module.answer(read_inputs(paths, module.INPUTS), arguments.k)
        answers += [replace(first, method=method_of(stage)), *others]
    write_answers(answers, arguments.output)
