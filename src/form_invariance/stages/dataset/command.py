"""Dataset of one cell."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, add_tokenizer_arguments, named_paths, settings

HELP = "choose train and eval prompts and corrupt partners from a census"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_tokenizer_arguments(parser)
    add_options(parser, "--operator", "--seed")
    parser.add_argument("--census", type=Path, required=True, help="census table of the cell")
    parser.add_argument(
        "--other-census",
        nargs="*",
        default=[],
        metavar="OPERATOR=FILE",
        help="censuses of the other operators; corrupt partners then come from all operators",
    )
    parser.add_argument("--train", type=int, required=True, help="train prompts")
    parser.add_argument("--eval", type=int, required=True, help="eval prompts")
    parser.add_argument("--corrupt-seeds", type=int, required=True, help="draws of corrupt partners")
    parser.add_argument("--output", type=Path, required=True, help="dataset table")
    parser.add_argument("--corrupt-output", type=Path, required=True, help="table of corrupt partners")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.compute import Choice, distinct_answers, make_dataset
    from form_invariance.stages.dataset.table import CORRUPT, DATASET
    from form_invariance.stages.tokenizer_options import load_tokenizer_alone
    from form_invariance.tables.files import provenance_of, read_table, write_table

    tokenizer = load_tokenizer_alone(arguments)
    paths = {arguments.operator: arguments.census}
    paths = {**named_paths(arguments.other_census, "--other-census"), **paths}
    censuses = {name: (read_table(path, CENSUS), provenance_of(path)["template"]) for name, path in paths.items()}
    choice = Choice(arguments.train, arguments.eval, arguments.corrupt_seeds, arguments.seed)
    dataset, corrupt = make_dataset(tokenizer, censuses, arguments.operator, choice)
    provenance = {
        **settings(arguments, "model", "revision", "operator", "seed", "train", "eval", "corrupt_seeds"),
        "corrupt": "across_operators" if len(censuses) > 1 else "within_operator",
        "distinct_answers": distinct_answers(dataset),
    }
    write_table(corrupt, arguments.corrupt_output, CORRUPT, provenance)
    write_table(dataset, arguments.output, DATASET, provenance)
