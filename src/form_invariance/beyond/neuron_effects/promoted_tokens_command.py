"""Tokens of the shared neurons."""

from pathlib import Path

import pandas as pd

from form_invariance.beyond.neuron_effects import promoted
from form_invariance.beyond.neuron_effects.table import PROMOTED_TOKENS
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import Files, ModelOptions, Size, recorded
from form_invariance.stages.circuit.table import CIRCUIT, by_layer, neurons_of
from form_invariance.tables.files import read_table, write_table
from form_invariance.tables.keys import common_keys


def promoted_tokens(*, model: ModelOptions, circuits: Files, k: Size, output: Path) -> None:
    """Find the tokens that the shared neurons of a model promote and suppress most directly.

    Args:
        circuits: circuit table of each operator
        output: table of the tokens
    """
    settings = recorded(locals())

    decoder, tokenizer = load_model(model)
    circuit_rows = pd.concat([read_table(path, CIRCUIT) for path in circuits]).drop_duplicates()
    table = promoted.promoted_tokens(decoder, tokenizer, by_layer(neurons_of(circuit_rows, k)))
    provenance = {**settings, "device": str(decoder.device)}
    write_table(table, output, PROMOTED_TOKENS, provenance, common_keys(*circuits))
