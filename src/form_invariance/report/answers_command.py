"""Answers for the report."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from form_invariance.experiment.answers import method_of, write_answers
from form_invariance.experiment.options import Files
from form_invariance.stage_folders import part_of
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.keys import common_keys


def answers(*, stages: list[str], tables: Files, k: int, output: Path) -> None:
    """Answer the report's questions about one model from its tables.

    Args:
        stages: stages whose questions are answered
        tables: the tables that the answers need, in any order
        k: circuit size that the sentences speak of
        output: answers, as JSON
    """
    modules = [import_module(f"form_invariance.{part_of(stage, 'answer')}") for stage in stages]
    inputs = {name: schema for module in modules for name, schema in module.INPUTS.items()}
    paths = input_paths(tables, inputs, "these stages need")
    all_answers = []
    for stage, module in zip(stages, modules, strict=True):
        read = read_inputs(paths, module.INPUTS)
        stage_tables = {name: table.drop(columns="model") for name, table in read.items()}
        answered = module.answer(stage_tables, k)
        all_answers += [*(replace(first, method=method_of(stage)) for first in answered[:1]), *answered[1:]]
    write_answers(common_keys(*tables)["model"], all_answers, output)
