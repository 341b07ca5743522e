"""Agreement of the formats on what neurons do."""

from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.experiment.options import Files, Seed, recorded

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def _samples(paths: dict[str, Path], neurons: "pd.DataFrame", named: Path) -> "dict[str, np.ndarray]":
    """The sampled activations of every format, (neurons, P).

    Args:
        neurons: the labelled neurons, in the order of the samples' rows.
        named: the table of these neurons, for messages.
    """
    import numpy as np

    from form_invariance.errors import UserError
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.names import SHARED
    from form_invariance.tables.files import read_tensors

    shared = neurons.loc[neurons["neurons"] == SHARED, ["layer", "neuron"]]
    samples, pairs = {}, None
    for name, path in paths.items():
        arrays, _ = read_tensors(path, map_files.KIND)
        pairs = arrays["sampled_pairs"] if pairs is None else pairs
        samples[name] = arrays["sampled"]
        same = len(samples[name]) == len(neurons) and np.array_equal(arrays["neurons"], shared)
        if not same or not np.array_equal(arrays["sampled_pairs"], pairs):
            raise UserError(
                f"{path} must have the neurons of {named} and the same pairs as the other formats; label these "
                "neurons with the same grid and --seed"
            )
    return samples


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

    from form_invariance.stages.agreement.compute import operator_tables
    from form_invariance.stages.agreement.correlation import correlation_table
    from form_invariance.stages.agreement.table import ACTIVATION_CORRELATION, AGREEMENT, LABELLED
    from form_invariance.stages.heuristics.names import MODES
    from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS
    from form_invariance.tables.files import provenance_of, read_table, read_tables, write_table
    from form_invariance.tables.keys import by_key, common_keys

    keys = common_keys(neurons)
    tables = read_tables(by_key(heuristics, "format"), HEURISTICS)
    chosen = read_table(neurons, LABELLED_NEURONS)
    ordered = chosen.sort_values(["neurons", "layer", "neuron"])
    correlations = correlation_table(_samples(by_key(maps, "format"), ordered, neurons), ordered)
    digits = {provenance_of(path).get("digit") for path in heuristics}
    modes = MODES if digits == {None} else ["strict"]
    found, labelled = operator_tables(tables, chosen, permutations, seed, keys["operator"], modes)
    write_table(correlations, correlation_output, ACTIVATION_CORRELATION, settings, keys)
    write_table(labelled, labelled_output, LABELLED, settings, keys)
    write_table(found, output, AGREEMENT, settings, keys)
