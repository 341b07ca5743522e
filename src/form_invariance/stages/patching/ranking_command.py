"""The ranking of one cell."""

from pathlib import Path


def ranking(*, attribution: Path, effects: Path, output: Path) -> None:
    """Rank the candidates of one cell by their mean exact indirect effect.

    Args:
        effects: indirect effects of the cell
        output: ranking table
    """
    import sys

    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.patching.ranking import CHECKED, rank_cell, recall_of_attribution
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tensors, write_table

    tensors, provenance = read_tensors(effects, "indirect_effects")
    estimates = read_table(attribution, ATTRIBUTION)
    table = rank_cell(tensors, estimates)
    recall = recall_of_attribution(table, estimates)
    if recall is not None:
        provenance["recall_of_attribution"] = recall
        contained = (
            f"the {CHECKED} best of a layer by attribution contain {recall:.1%} of its exact {CHECKED} best"
        )
        print(f"all neurons were patched: {contained} (mean over layers)", file=sys.stderr)
    write_table(table, output, RANKING, provenance, provenance["keys"])
