"""A pretended graphics card: its tensors claim to lie on a card, and are computed on the CPU.

It refuses what PyTorch refuses on a card: operands on two devices, NumPy's view of the card's memory, products of
integers. It also refuses operations whose sums vary on a card. It does not imitate kernels, speed or memory.
"""

import os
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from form_invariance.model import modules

# safetensors must know the name.
_setup_privateuseone_for_python_backend("npu")
CARD = torch.device("npu:0")
aten = torch.ops.aten
MOVES = (aten.copy_, aten._to_copy)
PRODUCTS = (aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.mv, aten.dot)
UNSTEADY = (
    *(aten.cumsum, aten.histc, aten.kthvalue, aten.median, aten.put, aten.embedding_dense_backward),
    *(aten.index_add, aten.index_add_, aten.index_reduce, aten.scatter_reduce),
)
"""Operations whose sums depend on the order of a card's threads (PyTorch's use_deterministic_algorithms)."""


class OnCard(torch.Tensor):
    """A tensor that says it lies on the card."""

    @staticmethod
    def __new__(cls, held):
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=CARD, **layout)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} met a tensor of the card outside the pretence")


def mapped(kind, change, value):
    """An operation's arguments or results, every value of a type changed; PyTorch's tree_map is much slower."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)([mapped(kind, change, one) for one in value])
    return value


def tensors_in(args):
    found = []
    mapped(torch.Tensor, found.append, args)
    return found


def refuse(packet, args, tensors):
    """Raises what a card would raise, or what it would do in another order each time."""
    if packet in (aten.index, aten.index_put, aten.index_put_):
        # Indices may lie on the CPU.
        tensors = tensors_in((args[0], args[2:3]))
    if packet not in MOVES and any(one.ndim and not isinstance(one, OnCard) for one in tensors):
        raise RuntimeError(f"{packet}: expected all tensors to be on the same device, {CARD}")
    if packet in PRODUCTS and not args[0].is_floating_point():
        raise RuntimeError(f"{packet}: a card multiplies no matrices of {args[0].dtype}")
    unsteady = packet in UNSTEADY or (packet in (aten.index_put, aten.index_put_) and args[3:4] == (True,))
    if packet in (aten.scatter_add, aten.scatter_add_):
        index = args[2].held.sort(args[1]).values
        unsteady = bool((index.diff(dim=args[1]) == 0).any())
    if unsteady:
        raise RuntimeError(f"{packet}: a card adds in another order each time")


class Dispatch(TorchDispatchMode):
    """Runs every operation on what the card's tensors hold, and counts those operations."""

    operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        packet = function.overloadpacket
        tensors = tensors_in((args, [*kwargs.values()]))
        here = any(isinstance(one, OnCard) for one in tensors)
        if here:
            self.operations += 1
            refuse(packet, args, tensors)
        if packet is aten.copy_:
            here = isinstance(args[0], OnCard)
        if kwargs.get("device") is not None:
            here = torch.device(kwargs["device"]).type == CARD.type
            kwargs["device"] = "cpu"
        held, named = mapped(OnCard, lambda one: one.held, (args, [*kwargs.values()]))
        result = function(*held, **dict(zip(kwargs, named, strict=True)))
        if not here:
            return result
        result = mapped(torch.Tensor, OnCard, result)
        return return_and_correct_aliasing(function, args, kwargs, result)


class Functions(TorchFunctionMode):
    """Fused attention has a kernel for each device, and tolist none for what only says where it lies."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.scaled_dot_product_attention:
            function = _attention
        if function is torch.Tensor.tolist:
            args = (args[0].cpu(),)
        return function(*args, **(kwargs or {}))


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    assert dropout_p == 0, "a model that is read drops nothing out"
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    tensors = [one for one in (query, key, value, attn_mask) if one is not None]
    if not any(isinstance(one, OnCard) for one in tensors):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, **options)
    assert all(isinstance(one, OnCard) for one in tensors), "attention over two devices"
    if any(one.requires_grad for one in tensors):
        return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, **options)[0]
    held = [one.held for one in tensors]
    return OnCard(torch.nn.functional.scaled_dot_product_attention(*held, **options))


@contextmanager
def pretended_gpu():
    """Within it, the device `npu` is there; yields what counts its operations."""
    # Else torch.tensor(..., device=...) would move its CPU tensor to the card unseen.
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        # A thread of transformers would load weights outside the pretence.
        here = patch.dict(os.environ, HF_DEACTIVATE_ASYNC_LOAD="1")
        with here, patch.object(modules, "PLAIN", (*modules.PLAIN, OnCard)), Functions(), Dispatch() as dispatch:
            yield dispatch
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
