"""Overlap of the formats of one operator."""

from pathlib import Path

from form_invariance.experiment.membership import Membership, read_effects
from form_invariance.experiment.options import Bootstrap, Files, MembershipRule, Seed, Sizes, recorded
from form_invariance.stages.overlap.compute import by_both_rules, reliability_table
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
from form_invariance.tables.files import write_table
from form_invariance.tables.keys import by_key, common_keys


def overlap(
    *,
    effects: Files,
    membership: MembershipRule,
    k: Sizes,
    bootstrap: Bootstrap,
    seed: Seed,
    output: Path,
    reliability_output: Path,
) -> None:
    """Measure how far the formats' top-k neurons overlap: Jaccard, chance and ceiling, for one operator.

    Args:
        effects: indirect effects of every format
        output: overlap table
        reliability_output: reliability table
    """
    settings = recorded(locals())

    cells = read_effects(by_key(effects, "format"), Membership(membership, seed))
    ks, keys = sorted(set(k)), common_keys(*effects)
    table = by_both_rules(cells, ks, bootstrap, seed)
    reliability = reliability_table(cells, ks, seed)
    write_table(table, output, OVERLAP, settings, keys)
    write_table(reliability, reliability_output, RELIABILITY, settings, keys)
