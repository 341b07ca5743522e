"""The backward rules of relevance patching (RelP; Jafari et al. 2025). They change gradients, and no value."""

from collections.abc import Callable

import torch
from torch import Tensor


def scaled(x: Tensor, epsilon: float) -> Tensor:
    """x (..., d) over its root mean square, whose gradient takes the latter as a constant (LN rule)."""
    return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt().detach()


def as_factor(activate: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """An activation function whose gradient takes activate(x) / x as a constant, ½ at 0 (identity rule)."""
    return x * torch.where(x == 0, 0.5, activate(x) / x).detach()


def half(product: Tensor) -> Tensor:
    """A product of two factors of which either gets half of the gradient (half rule)."""
    return (product + product.detach()) / 2
