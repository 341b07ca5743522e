"""Print the verdicts of two runs next to each other, and write them as a table."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.stages.options import add_options

if TYPE_CHECKING:
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "folder of a run, the key `results` of its configuration"
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help=text)
    add_options(parser, output="table of the verdicts that both runs have")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.summary.lines import compared, compared_lines
    from form_invariance.stages.summary.table import COMPARED
    from form_invariance.tables.files import write_table

    table = compared(*map(_verdicts, arguments.runs))
    write_table(table, arguments.output, COMPARED, {"runs": list(map(str, arguments.runs))})
    print(*compared_lines(table), f"The verdicts of each operator are in {arguments.output}.", sep="\n")


def _verdicts(folder: Path) -> "pd.DataFrame":
    """The verdicts of all models of a run, with the column model."""
    import pandas as pd

    from form_invariance.errors import UserError
    from form_invariance.stages.summary.table import VERDICTS
    from form_invariance.tables.files import read_table

    paths = sorted(folder.glob("*/shared/verdicts.parquet"))
    if not paths:
        raise UserError(
            f"{folder} has no MODEL/shared/verdicts.parquet; name the folder that the key `results` of a finished "
            "run's configuration names"
        )
    return pd.concat([read_table(path, VERDICTS).assign(model=path.parts[-3]) for path in paths])
