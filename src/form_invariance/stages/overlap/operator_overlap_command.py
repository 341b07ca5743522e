"""Overlap of the cells of a model."""

from pathlib import Path

from form_invariance.experiment.membership import Membership, name_of, read_effects
from form_invariance.experiment.options import Bootstrap, Files, MembershipRule, OtherFiles, Seed, Sizes, recorded
from form_invariance.stages.dataset.pairs import read_train_pairs
from form_invariance.stages.overlap.correlation import CellEffects, answers_of, format_correlation_table
from form_invariance.stages.overlap.differing import differing_table, operator_overlap_table
from form_invariance.stages.overlap.table import DIFFERING, FORMAT_CORRELATION, OPERATOR_OVERLAP
from form_invariance.tables.files import write_table
from form_invariance.tables.keys import by_cell, common_keys, matching_cells


def operator_overlap(
    *,
    effects: Files,
    variant_effects: OtherFiles = (),
    datasets: Files,
    corrupt_tables: Files,
    membership: MembershipRule,
    k: Sizes,
    bootstrap: Bootstrap,
    seed: Seed,
    output: Path,
    differing_output: Path,
    correlation_output: Path,
) -> None:
    """Measure how far any two cells' top-k neurons overlap, and how two formats' effects correlate.

    Args:
        effects: indirect effects of every cell
        variant_effects: indirect effects of the variants, whose format is FORMAT~N
        datasets: dataset tables of every cell
        corrupt_tables: corrupt partners of every cell
        output: operator overlap table
        differing_output: overlap by what differs between two cells
        correlation_output: correlation of two formats' effects
    """
    settings = recorded(locals())

    cell_paths, problems, partners = matching_cells(
        effects=effects, datasets=datasets, corrupt_tables=corrupt_tables
    )
    variant_paths = by_cell(variant_effects)
    all_effects = read_effects({**cell_paths, **variant_paths}, Membership(membership, seed))
    cells, variants = ({cell: all_effects[cell] for cell in paths} for paths in (cell_paths, variant_paths))
    ks, keys = sorted(set(k)), common_keys(*effects)
    pairs = operator_overlap_table(cells, ks, bootstrap, seed)
    write_table(pairs, output, OPERATOR_OVERLAP, settings, keys)
    differing = differing_table(cells, ks, bootstrap, seed, variants)
    write_table(differing, differing_output, DIFFERING, settings, keys)
    measured = {}
    for cell, effect in cells.items():
        train, draws = read_train_pairs(problems[cell], partners[cell])
        measured[cell] = CellEffects(effect, answers_of(train, draws, effect, name_of(cell)))
    correlation = format_correlation_table(measured, bootstrap, seed)
    write_table(correlation, correlation_output, FORMAT_CORRELATION, settings, keys)
