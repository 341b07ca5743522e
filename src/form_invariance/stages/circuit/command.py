"""The shared circuit of one operator."""

from pathlib import Path

from form_invariance.experiment.membership import Membership, read_effects
from form_invariance.experiment.options import Files, MembershipRule, Seed, Sizes, recorded
from form_invariance.stages.circuit.compute import circuit_table, halves_table
from form_invariance.stages.circuit.table import CIRCUIT, CIRCUIT_HALVES
from form_invariance.tables.files import write_table
from form_invariance.tables.keys import by_key, common_keys


def circuit(
    *,
    effects: Files,
    membership: MembershipRule,
    k: Sizes,
    seed: Seed,
    output: Path,
    halves_output: Path | None = None,
) -> None:
    """Find the neurons of one operator that are in every format's top k.

    Args:
        effects: indirect effects of every format
        output: circuit table
        halves_output: circuit tables of rankings by each half of the train prompts
    """
    settings = recorded(locals())

    cells = read_effects(by_key(effects, "format"), Membership(membership, seed))
    keys, ks = common_keys(*effects), sorted(set(k))
    if halves_output:
        write_table(halves_table(cells, ks), halves_output, CIRCUIT_HALVES, settings, keys)
    write_table(circuit_table(cells, ks), output, CIRCUIT, settings, keys)
