"""Answer the report's questions about one model from its tables."""

import argparse

from form_invariance.stages.options import add_files, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stages", nargs="+", required=True, help="stages whose questions are answered")
    add_files(parser, "--tables", "the tables that the answers need, in any order")
    add_required(parser, int, k="circuit size that the sentences speak of")
    add_options(parser, output="answers, as JSON")


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import replace
    from importlib import import_module

    from form_invariance.stages.answers import method_of, write_answers
    from form_invariance.tables.inputs import input_paths, read_inputs
    from form_invariance.tables.keys import common_keys

    modules = [import_module(f"form_invariance.stages.{stage}.answer") for stage in arguments.stages]
    every = {name: one for module in modules for name, one in module.INPUTS.items()}
    paths = input_paths(arguments.tables, every, "these stages need")
    answers = []
    for stage, module in zip(arguments.stages, modules, strict=True):
        tables = read_inputs(paths, module.INPUTS)
        own = {name: table.drop(columns="model") for name, table in tables.items()}
        first, *others = module.answer(own, arguments.k)
        answers += [replace(first, method=method_of(stage)), *others]
    write_answers(common_keys(*arguments.tables)["model"], answers, arguments.output)
