"""Choose train and eval prompts and corrupt partners of one cell from its census."""

import argparse

from form_invariance.stages.options import (
    add_keyed,
    add_options,
    add_required,
    settings,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--operator", "--seed", census="census table of the cell")
    others = "censuses of the other operators; corrupt partners then come from all operators"
    add_keyed(parser, "--other-census", "OPERATOR=FILE", others, required=False)
    add_required(
        parser, int, train="train prompts", eval="eval prompts", corrupt_seeds="draws of corrupt partners"
    )
    add_options(parser, output="dataset table", corrupt_output="table of corrupt partners")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.compute import Choice, distinct_answers, make_dataset
    from form_invariance.stages.dataset.table import CORRUPT, DATASET
    from form_invariance.tables.files import provenance_of, read_table, write_table

    paths = {**arguments.other_census, arguments.operator: arguments.census}
    censuses = {name: (read_table(path, CENSUS), provenance_of(path)["template"]) for name, path in paths.items()}
    choice = Choice(arguments.train, arguments.eval, arguments.corrupt_seeds, arguments.seed)
    dataset, corrupt = make_dataset(censuses, arguments.operator, choice)
    provenance = {
        **{name: provenance_of(arguments.census)[name] for name in ("model", "revision")},
        **settings(arguments, "operator", "seed", "train", "eval", "corrupt_seeds"),
        "corrupt": "across_operators" if len(censuses) > 1 else "within_operator",
        "distinct_answers": distinct_answers(dataset),
    }
    write_table(corrupt, arguments.corrupt_output, CORRUPT, provenance)
    write_table(dataset, arguments.output, DATASET, provenance)
