"""The verdicts on the screen."""

from pathlib import Path
from typing import Annotated

from form_invariance.errors import UserError
from form_invariance.experiment.options import Flag
from form_invariance.tables.files import provenance_of, read_tables
from form_invariance.tables.keys import by_key
from form_invariance.tables.lineage import OfAnyModel
from form_invariance.verdicts.summary.lines import BETWEEN, LEGEND, side_by_side, verdict_lines
from form_invariance.verdicts.summary.table import VERDICTS


def verdicts(*tables: Annotated[Path, OfAnyModel], k: int | None = None, operators: Flag = False) -> None:
    """Print the verdicts of one model, or those of several models side by side.

    Args:
        tables: verdicts tables
        k: circuit size; default: the run's k_shown
        operators: each model alone, with what is compared, and the verdicts on each operator
    """
    if not tables:
        raise UserError("verdicts: give a table, for instance results/MODEL/shared/verdicts.parquet")
    if odd := [path for path in tables if path.suffix != ".parquet" or path.is_dir()]:
        raise UserError(f"verdicts: {odd[0]} is no table; give results/MODEL/shared/verdicts.parquet")
    paths = by_key(tables, "model")
    by_model = read_tables(paths, VERDICTS)
    shown: dict[str, int] = {}
    for model, table in by_model.items():
        shown[model] = k or provenance_of(paths[model]).get("k_shown", 0)
        sizes = sorted(set(table["k"]))
        if shown[model] not in sizes:
            has = ", ".join(map(str, sizes))
            raise UserError(f"--k: {paths[model]} has no verdicts at k = {shown[model]}; it has {has}")
    legend = list(LEGEND)
    if len(by_model) > 1 and not operators:
        print(*side_by_side(by_model, shown), "", sep="\n")
        legend += [BETWEEN] if len(by_model) == 2 else []
    else:
        for model, table in by_model.items():
            print(*verdict_lines(table, model, shown[model], operators), "", sep="\n")
    print(*legend, "", sep="\n")
