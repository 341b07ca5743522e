"""How much memory a stage may use at once: a fixed amount on a CPU, a share of the free memory on a GPU."""

from functools import cache

import torch

from form_invariance.model.decoder import Decoder

_GPU_SHARE = 8
_LOGITS_BYTES = 2**28
_CPU_ROWS = 512, 2048
"""Fewer rows make slow matrix products on a CPU; more are no faster."""
_CPU_NEURONS = 2**20
"""Activations of an MLP, between these bounds: a few tensors of this size stay in the processor's cache."""


@cache
def _gpu_bytes(device: torch.device) -> int:
    """An eighth of the memory that is free at the first call, rounded down to a power of two.

    The rounding keeps the batches, and so the last digits, equal if the free memory differs a little.
    """
    free, _ = torch.cuda.mem_get_info(device)
    return int(2 ** ((free // _GPU_SHARE).bit_length() - 1))


def working_bytes(device: torch.device, on_cpu: int) -> int:
    """Bytes for a stage's largest intermediate tensors.

    Args:
        on_cpu: the amount on a CPU, where pieces that fit into the processor's cache are fastest.
    """
    return max(on_cpu, _gpu_bytes(device)) if device.type == "cuda" else on_cpu


def logits_at_once(model: Decoder) -> int:
    """How many rows of logits over the vocabulary are made at once."""
    return max(1, working_bytes(model.device, _LOGITS_BYTES) // (8 * model.config.vocabulary))


def rows_at_once(model: Decoder) -> int:
    """How many tokens a layer takes at once: enough for fast matrix products, few enough for the memory."""
    c = model.config
    row = 4 * (4 * c.d_mlp + 8 * c.d_model + 8 * c.n_heads * c.d_head)
    fewest, most = _CPU_ROWS
    rows = min(most, max(fewest, 2 ** ((_CPU_NEURONS // c.d_mlp).bit_length() - 1)))
    return working_bytes(model.device, rows * row) // row
