"""The verdicts on the screen."""

from pathlib import Path
from typing import Annotated

from form_invariance.errors import UserError
from form_invariance.experiment.options import Flag
from form_invariance.tables.files import provenance_of, read_tables
from form_invariance.tables.keys import by_key
from form_invariance.tables.lineage import OfAnyModel
from form_invariance.verdicts.summary.lines import LEGEND, verdict_lines
from form_invariance.verdicts.summary.table import VERDICTS


def verdicts(*tables: Annotated[Path, OfAnyModel], k: int | None = None, operators: Flag = False) -> None:
    """Print the verdicts of one or several models.

    Args:
        tables: verdicts tables
        k: circuit size; default: the run's k_shown
        operators: also what is compared, and the verdicts on each operator
    """
    if not tables:
        raise UserError("verdicts: give a table, for instance results/MODEL/shared/verdicts.parquet")
    if odd := [path for path in tables if path.suffix != ".parquet" or path.is_dir()]:
        raise UserError(f"verdicts: {odd[0]} is no table; give results/MODEL/shared/verdicts.parquet")
    paths = by_key(tables, "model")
    for model, table in read_tables(paths, VERDICTS).items():
        shown: int = k or provenance_of(paths[model]).get("k_shown", 0)
        sizes = sorted(set(table["k"]))
        if shown not in sizes:
            has = ", ".join(map(str, sizes))
            raise UserError(f"--k: {paths[model]} has no verdicts at k = {shown}; it has {has}")
        print(*verdict_lines(table, model, shown, operators), "", sep="\n")
    print(*LEGEND, "", sep="\n")
