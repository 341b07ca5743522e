"""Activations of neurons on each row of a table of words: what heat maps are for pairs of operands."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.heuristics.activations import operand_maps


def row_activations(
    model: Decoder, tokenizer: PromptTokenizer, census: pd.DataFrame, neurons: Mapping[int, np.ndarray]
) -> pd.DataFrame:
    """The table of activations at the last token.

    Args:
        census: census of a cell, with N rows of a table of words.
        neurons: neurons by layer.
    """
    activations = operand_maps(model, tokenizer, census["prompt"].tolist(), neurons)  # (neurons, N)
    rows = census.rename(columns={"a": "row"})[["row", "fields", "target"]]
    places = [(layer, number) for layer, numbers in neurons.items() for number in numbers.tolist()]
    table = pd.DataFrame(places, columns=["layer", "neuron"], dtype="int64").merge(rows, how="cross")
    return table.assign(activation=activations.flatten().astype(float))
