"""The verdicts on one model."""

from pathlib import Path

from form_invariance.experiment.contrasts.table import CONTRASTS, RESIDUAL_CONTRASTS
from form_invariance.experiment.options import Files, recorded
from form_invariance.stages.overlap.table import DIFFERING, OVERLAP
from form_invariance.tables.files import write_table
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.keys import common_keys
from form_invariance.verdicts.summary.compute import verdicts_table
from form_invariance.verdicts.summary.table import VERDICTS


def summary(*, tables: Files, k_shown: int, output: Path) -> None:
    """Answer the main questions about one model: effect, strongest control, interval and verdict.

    Args:
        tables: overlap, differing, contrasts, and residual_contrasts if there is one, in any order
        k_shown: circuit size that is printed by default; the table has all
        output: verdicts table
    """
    settings = recorded(locals())

    schemas = (OVERLAP, DIFFERING, CONTRASTS, RESIDUAL_CONTRASTS)
    inputs = {schema.name: schema for schema in schemas}
    paths = input_paths(tables, inputs, "the verdicts need", optional={RESIDUAL_CONTRASTS.name})
    input_tables = read_inputs(paths, inputs)
    write_table(verdicts_table(input_tables), output, VERDICTS, settings, common_keys(*tables))
