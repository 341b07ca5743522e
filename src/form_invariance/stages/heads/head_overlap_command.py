"""How far the formats' best attention heads overlap: Jaccard, chance and ceiling, for one operator."""

import argparse

from form_invariance.stages.options import add_late_arguments, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_late_arguments(parser)
    add_options(
        parser, "--membership", "--bootstrap", "--seed", effects="the heads' effects by prompt, of every format"
    )
    add_required(parser, int, "+", heads="how many heads a format's set has")
    add_options(parser, output="head overlap table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.heads.overlap import head_overlap_table
    from form_invariance.stages.heads.overlap_table import HEAD_OVERLAP
    from form_invariance.stages.late_layers import first_late_layer
    from form_invariance.stages.membership import Membership
    from form_invariance.tables.files import read_tensors, write_table

    tensors, provenance = read_tensors(arguments.effects, "head_effects")
    effects = {name: tensors[name] for name in provenance["formats"]}
    n_layers = next(iter(effects.values())).shape[1]
    first = first_late_layer(arguments.late_from, n_layers, arguments.probes)
    sizes = sorted(set(arguments.heads))
    membership = Membership(arguments.membership, arguments.seed)
    table = head_overlap_table(effects, sizes, first, arguments.bootstrap, membership)
    recorded = {"model": provenance["model"], "first_late_layer": first}
    recorded |= settings(arguments, "membership", "bootstrap", "seed")
    write_table(table, arguments.output, HEAD_OVERLAP, recorded)
