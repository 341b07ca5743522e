"""The shared circuit of one operator."""

from pathlib import Path

from form_invariance.experiment.options import Files, MembershipRule, Seed, Sizes, recorded


def circuit(*, effects: Files, membership: MembershipRule, k: Sizes, seed: Seed, output: Path) -> None:
    """Find the neurons of one operator that are in every format's top k.

    Args:
        effects: indirect effects of every format
        output: circuit table
    """
    settings = recorded(locals())

    from form_invariance.experiment.membership import Membership, read_effects
    from form_invariance.stages.circuit.compute import circuit_table
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import by_key, common_keys

    cells, models = read_effects(by_key(effects, "format"), Membership(membership, seed))
    provenance = {**settings, "models": models}
    write_table(circuit_table(cells, sorted(set(k))), output, CIRCUIT, provenance, common_keys(*effects))
