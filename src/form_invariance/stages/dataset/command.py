"""Dataset of one cell."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_tokenizer_arguments, load_tokenizer_alone, named_paths

HELP = "choose train and eval prompts and corrupt partners from a census"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--operator", required=True, help="the operator's name")
    parser.add_argument("--census", type=Path, required=True, help="census table of the cell")
    parser.add_argument(
        "--other-census",
        nargs="*",
        default=[],
        metavar="OPERATOR=FILE",
        help="censuses of the other operators; corrupt partners then come from all operators",
    )
    add_tokenizer_arguments(parser)
    parser.add_argument("--train", type=int, default=100, help="train prompts")
    parser.add_argument("--eval", type=int, default=100, help="eval prompts")
    parser.add_argument("--corrupt-seeds", type=int, default=3, help="draws of corrupt partners")
    parser.add_argument("--seed", type=int, default=0, help="seed of all choices")
    parser.add_argument("--output", type=Path, required=True, help="dataset table")
    parser.add_argument("--corrupt-output", type=Path, required=True, help="table of corrupt partners")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import pandas as pd

    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset import compute as datasets
    from form_invariance.stages.dataset.table import CORRUPT, DATASET
    from form_invariance.tables.files import provenance_of, read_table, write_table

    tokenizer = load_tokenizer_alone(arguments)

    def choose(census: Path, operator: str) -> pd.DataFrame:
        table, template = read_table(census, CENSUS), provenance_of(census)["template"]
        return datasets.choose_dataset(table, arguments.train, arguments.eval, arguments.seed, operator, template)

    def with_tokens(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(answer_token=tokenizer.number_tokens(table["answer"].to_numpy()))

    dataset = choose(arguments.census, arguments.operator)
    others = {
        operator: choose(path, operator).query("split == 'train'")
        for operator, path in named_paths(arguments.other_census, "--other-census").items()
        if operator != arguments.operator
    }
    train = dataset[dataset["split"] == "train"]
    corrupt = datasets.draw_corrupt(train, others, arguments.operator, arguments.corrupt_seeds, arguments.seed)
    provenance = {
        "model": arguments.model,
        "revision": arguments.revision,
        "operator": arguments.operator,
        "seed": arguments.seed,
        "train": arguments.train,
        "eval": arguments.eval,
        "corrupt_seeds": arguments.corrupt_seeds,
        "corrupt": "across_operators" if others else "within_operator",
        "distinct_answers": datasets.distinct_answers(dataset),
    }
    write_table(with_tokens(corrupt), arguments.corrupt_output, CORRUPT, provenance)
    write_table(with_tokens(dataset), arguments.output, DATASET, provenance)
