"""Rank the candidates of one cell by their mean exact indirect effect."""

import argparse

from form_invariance.stages.options import add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--attribution", effects="indirect effects of the cell", output="ranking table")


def run(arguments: argparse.Namespace) -> None:
    import sys

    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.patching.ranking import CHECKED, rank_cell, recall_of_attribution
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tensors, write_table

    tensors, provenance = read_tensors(arguments.effects, "indirect_effects")
    attribution = read_table(arguments.attribution, ATTRIBUTION)
    table = rank_cell(tensors, attribution)
    kept = {key: value for key, value in provenance.items() if key not in ("table", "version", "keys")}
    recall = recall_of_attribution(table, attribution)
    if recall is not None:
        kept["recall_of_attribution"] = recall
        contained = (
            f"the {CHECKED} best of a layer by attribution contain {recall:.1%} of its exact {CHECKED} best"
        )
        print(f"all neurons were patched: {contained} (mean over layers)", file=sys.stderr)
    write_table(table, arguments.output, RANKING, kept, provenance["keys"])
