"""Wiring: only late neurons write the dimensions that the unembedding reads, so the answer needs late neurons.

Without it a small model finds the answer in its first layers, and its late neurons have little effect. So late in
the training the last `d_answer` dimensions of the residual stream are reserved for the answer. The unembedding
reads only these dimensions. The weights with which attention and early MLPs would write them are frozen at zero.
The early layers still do most of the arithmetic, in the other dimensions.
"""

import torch
from torch import Tensor

from embedded_training.recipe import Recipe


class Frozen:
    """Weights, and the entries of them that training must not change."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        """Start without frozen entries. `weights` are changed in place."""
        self.weights = weights
        self.masks: dict[str, Tensor] = {}
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def set(
        self, name: str, where: tuple[slice | int | list[int], ...], value: float | Tensor | None = None
    ) -> None:
        """Freeze some entries of a weight, after setting them to `value` if it is given."""
        if value is not None:
            self.weights[name][where] = value
        self.masks.setdefault(name, torch.zeros_like(self.weights[name], dtype=torch.bool))[where] = True

    def keep(self) -> None:
        """Store the present values of the frozen entries."""
        self.kept = {name: self.weights[name].detach()[mask] for name, mask in self.masks.items()}

    @torch.no_grad()
    def restore(self) -> None:
        """Write the stored values of the frozen entries back."""
        for name, mask in self.masks.items():
            self.weights[name][mask] = self.kept[name]


def wire(frozen: Frozen, recipe: Recipe) -> None:
    """Freeze at zero the weights through which the answer could bypass the late neurons."""
    answer = slice(recipe.d_model - recipe.d_answer, recipe.d_model)
    frozen.set("model.norm.weight", (slice(0, recipe.d_model - recipe.d_answer),), 0.0)
    for layer in range(recipe.n_layers):
        at = f"model.layers.{layer}"
        frozen.set(f"{at}.self_attn.o_proj.weight", (answer,), 0.0)
        if layer < recipe.n_layers // 2:
            frozen.set(f"{at}.mlp.down_proj.weight", (answer,), 0.0)
