"""How much a stage may hold at once: fixed on a CPU, taken from the free memory on a GPU."""

from functools import cache

import torch

from form_invariance.model.decoder import Decoder

_GPU_SHARE = 8
_CPU_ROWS = 2048
"""On a CPU more rows are no faster."""


@cache
def _gpu_bytes(device: torch.device) -> int:
    """An eighth of the memory that was free when first asked, rounded down to a power of two.

    So a little more or less free memory leaves the batches, and with them the last digits, as they are.
    """
    free, _ = torch.cuda.mem_get_info(device)
    return int(2 ** ((free // _GPU_SHARE).bit_length() - 1))


def working_bytes(device: torch.device, on_cpu: int) -> int:
    """Memory for a stage's largest intermediate tensors.

    Args:
        on_cpu: what it is on a CPU, where pieces that stay near the cache are fastest.
    """
    return max(on_cpu, _gpu_bytes(device)) if device.type == "cuda" else on_cpu


def replayed_rows(model: Decoder) -> int:
    """Variants of a last token replayed at once: enough to fill matrix products, few enough for the memory."""
    c = model.config
    row = 4 * (4 * c.d_mlp + 8 * c.d_model + 8 * c.n_heads * c.d_head)
    return working_bytes(model.device, _CPU_ROWS * row) // row
