"""Rank the candidates of one cell by their mean exact indirect effect."""

import argparse

from form_invariance.stages.options import add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--attribution", effects="indirect effects of the cell", output="ranking table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.patching.ranking import rank_cell
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tensors, write_table

    tensors, provenance = read_tensors(arguments.effects, "indirect_effects")
    table = rank_cell(tensors, read_table(arguments.attribution, ATTRIBUTION))
    kept = {key: value for key, value in provenance.items() if key not in ("table", "version")}
    write_table(table, arguments.output, RANKING, kept)
