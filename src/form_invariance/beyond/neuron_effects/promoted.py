"""The tokens whose logits each neuron raises and lowers most through its own weights, past all later layers."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.heuristics.activations import unit_writes

TOP = 10
"""The number of tokens that are promoted, and that are suppressed."""
_NEURONS, _TOKENS = 128, 1 << 14
"""Neurons, and tokens, in one matrix product."""


@torch.no_grad()
def promoted_tokens(model: Decoder, tokenizer: PromptTokenizer, neurons: Mapping[int, np.ndarray]) -> pd.DataFrame:
    """The table of promoted and suppressed tokens; `neurons`: neurons by layer."""
    frames = [
        _frame(model, layer, chunk)
        for layer, numbers in neurons.items()
        for chunk in np.array_split(numbers, -(-len(numbers) // _NEURONS))
    ]
    if not frames:
        return pd.DataFrame(columns=["layer", "neuron", "direction", "rank", "token", "text", "logit"])
    table = pd.concat(frames, ignore_index=True)
    texts = {token: tokenizer.text(token) for token in table["token"].unique().tolist()}
    return table.assign(text=table["token"].map(texts))


def _frame(model: Decoder, layer: int, numbers: np.ndarray) -> pd.DataFrame:
    writes = unit_writes(model, layer, numbers).float() * model.final_norm.weight.float()
    z = torch.cat([writes @ tokens.float().T for tokens in model.unembedding.split(_TOKENS)], dim=1)
    z = z - z.mean(1, keepdim=True)  # (n, V)
    frames = []
    for direction, largest in (("promotes", True), ("suppresses", False)):
        best = z.topk(min(TOP, z.shape[1]), largest=largest)
        n, top = best.indices.shape
        columns = {
            "layer": layer,
            "neuron": np.repeat(numbers, top),
            "direction": direction,
            "rank": np.tile(np.arange(top) + 1, n),
            "token": best.indices.flatten().cpu().numpy(),
            "logit": best.values.flatten().double().cpu().numpy(),
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames)
