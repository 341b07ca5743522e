"""What the commands `transfer` and `dose` are given alike: the pairs of one operator's censuses, and a model."""

import argparse
from typing import TYPE_CHECKING

from form_invariance.stages.options import add_options, add_run_arguments

if TYPE_CHECKING:
    import pandas as pd

    from form_invariance.stages.run import Run
    from form_invariance.stages.transfer.conditions import Plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare it."""
    add_run_arguments(parser)
    add_options(parser, "--operator", "--census", "--exclude-train", "--rankings", "--circuit", "--pairs")
    add_options(parser, "--random-seeds", "--center-logits", "--seed")


def read_arguments(arguments: argparse.Namespace) -> "tuple[Run, Plans, dict[str, pd.DataFrame]]":
    """The model, who gives to whom, and the ranking table of every format."""
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.run import load_run
    from form_invariance.stages.transfer.conditions import plan
    from form_invariance.tables.files import read_table, read_tables

    censuses = read_tables(arguments.census, CENSUS)
    rankings = read_tables(arguments.rankings, RANKING)
    datasets = [read_table(path, DATASET) for path in arguments.exclude_train]
    plans = plan(censuses, datasets, arguments.pairs, arguments.seed, arguments.operator)
    return load_run(arguments), plans, rankings
