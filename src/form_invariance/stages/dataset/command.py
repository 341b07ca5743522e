"""Choose train and eval prompts and corrupt partners of one cell from its census."""

import argparse

from form_invariance.stages.options import (
    add_files,
    add_options,
    add_required,
    settings,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--seed", census="census table of the cell")
    others = "censuses of the other operators; corrupt partners then come from all operators"
    add_files(parser, "--other-census", others, required=False)
    add_required(
        parser, int, train="train prompts", eval="eval prompts", corrupt_seeds="draws of corrupt partners"
    )
    add_options(parser, output="dataset table", corrupt_output="table of corrupt partners")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.compute import Choice, distinct_answers, make_dataset
    from form_invariance.stages.dataset.table import CORRUPT, DATASET
    from form_invariance.tables.files import provenance_of, read_table, write_table
    from form_invariance.tables.keys import by_key, common_keys

    keys = common_keys(arguments.census)
    paths = by_key([*arguments.other_census, arguments.census], "operator")
    censuses = {name: (read_table(path, CENSUS), provenance_of(path)["template"]) for name, path in paths.items()}
    choice = Choice(arguments.train, arguments.eval, arguments.corrupt_seeds, arguments.seed)
    dataset, corrupt = make_dataset(censuses, keys["operator"], choice)
    provenance = {
        **{name: provenance_of(arguments.census)[name] for name in ("model", "revision")},
        "operator": keys["operator"],
        **settings(arguments, "seed", "train", "eval", "corrupt_seeds"),
        "corrupt": "across_operators" if len(censuses) > 1 else "within_operator",
        "distinct_answers": distinct_answers(dataset),
    }
    write_table(corrupt, arguments.corrupt_output, CORRUPT, provenance, keys)
    write_table(dataset, arguments.output, DATASET, provenance, keys)
