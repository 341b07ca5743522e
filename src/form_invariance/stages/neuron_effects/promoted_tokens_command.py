"""The tokens that the shared neurons of a model promote and suppress most directly."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_model_arguments, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_required(parser, Path, nargs="+", circuits="circuit table of each operator")
    add_options(parser, "--k", output="table of the tokens")


def run(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from form_invariance.stages.circuit.table import CIRCUIT, by_layer
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.stages.neuron_effects.promoted import promoted_tokens
    from form_invariance.stages.neuron_effects.table import PROMOTED_TOKENS
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.keys import common_keys

    model, tokenizer = load_model(arguments)
    circuits = pd.concat([read_table(path, CIRCUIT) for path in arguments.circuits]).drop_duplicates()
    table = promoted_tokens(model, tokenizer, by_layer(circuits, arguments.k))
    keys = common_keys(*arguments.circuits)
    write_table(table, arguments.output, PROMOTED_TOKENS, model_provenance(arguments, "k"), keys)
