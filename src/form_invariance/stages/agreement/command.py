"""Test whether the shared neurons of one operator do the same in every format, by families and by activations."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.stages.options import add_files, add_options, add_required, settings

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--seed")
    add_files(parser, "--heuristics", "heuristics tables of every format")
    add_files(parser, "--maps", "activation maps of every format")
    add_options(parser, neurons="labelled neurons (heuristics draw)")
    add_required(parser, int, permutations="permutations of the null")
    add_options(parser, output="agreement table", labelled_output="table of labelled neurons")
    add_options(parser, correlation_output="table of activation correlations")


def _samples(paths: dict[str, Path], neurons: "pd.DataFrame", named: Path) -> "dict[str, np.ndarray]":
    """The sampled activations of every format, (neurons, P).

    Args:
        neurons: the labelled neurons, in the order of the samples' rows.
        named: the table of these neurons, for messages.

    Raises:
        UserError: a file has other neurons, or other pairs than the first file.
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


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.agreement.compute import operator_tables
    from form_invariance.stages.agreement.correlation import correlation_table
    from form_invariance.stages.agreement.table import ACTIVATION_CORRELATION, AGREEMENT, LABELLED
    from form_invariance.stages.heuristics.names import MODES
    from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS
    from form_invariance.tables.files import provenance_of, read_table, read_tables, write_table
    from form_invariance.tables.keys import by_key, common_keys

    tables = read_tables(by_key(arguments.heuristics, "format"), HEURISTICS)
    neurons = read_table(arguments.neurons, LABELLED_NEURONS)
    ordered = neurons.sort_values(["neurons", "layer", "neuron"])
    correlations = correlation_table(
        _samples(by_key(arguments.maps, "format"), ordered, arguments.neurons), ordered
    )
    keys = common_keys(arguments.neurons)
    digits = [provenance_of(path).get("digit") for path in arguments.heuristics]
    found, labelled = operator_tables(
        tables,
        neurons,
        arguments.permutations,
        arguments.seed,
        keys["operator"],
        MODES if set(digits) == {None} else ["strict"],
    )
    provenance = settings(arguments, "permutations", "seed")
    write_table(correlations, arguments.correlation_output, ACTIVATION_CORRELATION, provenance, keys)
    write_table(labelled, arguments.labelled_output, LABELLED, provenance, keys)
    write_table(found, arguments.output, AGREEMENT, provenance, keys)
