"""The precision in which a model runs, whatever a notebook has switched on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from form_invariance.model.decoder import Decoder


def matmul_precision(model: Decoder) -> str:
    """The present precision of matrix products: float32, tf32 or bfloat16."""
    if model.dtype == torch.bfloat16:
        return "bfloat16"
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "float32"


@contextmanager
def precision_of(model: Decoder) -> Iterator[None]:
    """Set torch's global switches as the model needs them, and back afterwards.

    TF32 is a switch of the process, not of a tensor. It is on only for a model that was loaded in tf32.
    """
    switches = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = [switch.fp32_precision for switch in switches]
    default = torch.get_default_dtype()
    try:
        named = torch.get_float32_matmul_precision()
    except RuntimeError:  # torch has two sets of switches, and raises if they disagree
        named = None
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = model.tf32
    torch.set_default_dtype(torch.float32)
    try:
        with torch.autocast(model.device.type, enabled=False), torch.inference_mode(False):
            yield
    finally:
        torch.set_default_dtype(default)
        if named is not None:
            torch.set_float32_matmul_precision(named)
        for switch, was in zip(switches, before, strict=True):
            switch.fp32_precision = was
