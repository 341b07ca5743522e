"""Agreement of the formats on what neurons do."""

from pathlib import Path

from form_invariance.experiment.options import Files, Seed, recorded
from form_invariance.stages.agreement.compute import operator_tables
from form_invariance.stages.agreement.correlation import correlation_table
from form_invariance.stages.agreement.table import ACTIVATION_CORRELATION, AGREEMENT, LABELLED
from form_invariance.stages.heuristics.map_files import KIND
from form_invariance.stages.heuristics.names import MODES
from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS, ordered
from form_invariance.tables.files import provenance_of, read_table, read_tables, read_tensors, write_table
from form_invariance.tables.keys import by_key, common_keys


def agreement(
    *,
    neurons: Path,
    heuristics: Files,
    maps: Files,
    permutations: int,
    seed: Seed,
    output: Path,
    labelled_output: Path,
    correlation_output: Path,
) -> None:
    """Test whether the shared neurons of one operator do the same in every format, by families and by activations.

    Args:
        neurons: labelled neurons (heuristics draw)
        heuristics: heuristics tables of every format
        maps: activation maps of every format
        permutations: permutations of the null
        output: agreement table
        labelled_output: table of labelled neurons
        correlation_output: table of activation correlations
    """
    settings = recorded(locals())

    keys = common_keys(neurons)
    tables = read_tables(by_key(heuristics, "format"), HEURISTICS)
    labelled_neurons = read_table(neurons, LABELLED_NEURONS)
    samples = {name: read_tensors(path, KIND)[0]["sampled"] for name, path in by_key(maps, "format").items()}
    correlations = correlation_table(samples, ordered(labelled_neurons))
    digits = {provenance_of(path).get("digit") for path in heuristics}
    modes = MODES if digits == {None} else ["strict"]
    agreements, labelled = operator_tables(tables, labelled_neurons, permutations, seed, keys["operator"], modes)
    write_table(correlations, correlation_output, ACTIVATION_CORRELATION, settings, keys)
    write_table(labelled, labelled_output, LABELLED, settings, keys)
    write_table(agreements, output, AGREEMENT, settings, keys)
