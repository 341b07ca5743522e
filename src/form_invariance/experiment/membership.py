"""The exact effects of one cell, as the stages after exact patching use them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from form_invariance.errors import UserError
from form_invariance.randomness import generator
from form_invariance.statistics import ranks
from form_invariance.tables.files import read_tensors

if TYPE_CHECKING:
    from torch import Tensor

Key = TypeVar("Key", str, tuple[str, str])
Summary = Callable[[np.ndarray], np.ndarray]
"""From effects (P, C) to the values (..., C) that neurons are ranked by."""


def mean_over_prompts(effects: np.ndarray) -> np.ndarray:
    """The values that rank the neurons: mean effects (C,), from effects (P, C)."""
    return np.asarray(effects.mean(0))


POSITIVE, TOP_K = "positive", "top_k"


@dataclass(frozen=True)
class Membership:
    """Which of the k neurons with the largest effects are members of a format's set (method, section 5).

    Attributes:
        rule: positive keeps only effects above 0; top_k, the paper's rule, keeps negative ones too. A neuron whose
            effect is exactly 0 is never a member, so a set may have fewer than k.
        seed: determines the random order of equal effects, which differs between formats.
    """

    rule: str = POSITIVE
    seed: int = 0

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Which neurons may be members, from the values that rank them."""
        return values > 0 if self.rule == POSITIVE else values != 0


@dataclass
class Effects:
    """Exact effects of one cell: per late layer (S, P, C), and the candidates (C,).

    `probability_change` has the mean change, over all draws and prompts, of the right answer's probability by each
    candidate's patch, (C,).
    """

    effects: dict[int, np.ndarray]
    candidates: dict[int, np.ndarray]
    width: int  # neurons of a layer
    name: str = ""  # the cell's, for the order of equal effects
    membership: Membership = Membership()
    probability_change: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def prompts(self) -> int:
        """Number of train prompts."""
        return next(iter(self.effects.values())).shape[1]

    @property
    def draws(self) -> int:
        """Number of draws of corrupt partners."""
        return len(next(iter(self.effects.values())))

    def by_prompt(self, layer: int, draw: int | None = None) -> np.ndarray:
        """Effects of one draw of corrupt partners, or their mean over all draws, (P, C), float64."""
        effects = self.effects[layer]
        return effects.mean(0, dtype=np.float64) if draw is None else effects[draw].astype(np.float64)

    def means(self, layer: int) -> np.ndarray:
        """Mean effect of every neuron of a layer over draws and prompts, (width,); NaN if it was no candidate."""
        means = np.full(self.width, np.nan)
        means[self.candidates[layer]] = self.by_prompt(layer).mean(0)
        return means

    def halves(self) -> tuple["Effects", "Effects"]:
        """The effects on each half of the train prompts, which are split at random."""
        order = generator(self.membership.seed, "halves of best", self.name).permutation(self.prompts)
        first, second = (
            replace(self, effects={layer: effects[:, half] for layer, effects in self.effects.items()})
            for half in np.array_split(order, 2)
        )
        return first, second

    def ranks(self, layer: int, summary: Summary = mean_over_prompts, draw: int | None = None) -> np.ndarray:
        """Rank from 0 of every neuron of a layer, (..., width), by one draw of corrupt partners or by all.

        Neurons that were no candidates, or cannot be members (`Membership`), have the rank `width`.
        """
        values = summary(self.by_prompt(layer, draw))
        order = generator(self.membership.seed, "ties", self.name, layer).permutation(values.shape[-1])
        result = np.full((*values.shape[:-1], self.width), self.width, dtype=np.int32)
        placed = np.where(self.membership.holds(values), ranks(values, order), self.width)
        result[..., self.candidates[layer]] = placed
        return result


def to_tensors(patched: Mapping[int, "Tensor"], candidates: Mapping[int, "Tensor"]) -> dict[str, "Tensor"]:
    """Named tensors for a file: `effects.L` (S, P, C), `probability_change.L` and `candidates.L` (C,) by layer L.

    Args:
        patched: for each layer the effects and the changes of the clean answer's probability, (2, S, P, C).
    """
    tensors = {f"effects.{layer}": effects for layer, (effects, _) in patched.items()}
    tensors |= {
        f"probability_change.{layer}": change.double().mean((0, 1)) for layer, (_, change) in patched.items()
    }
    return tensors | {f"candidates.{layer}": neurons for layer, neurons in candidates.items()}


def layers_in(tensors: Mapping[str, np.ndarray]) -> list[int]:
    """The layers whose effects a file's tensors contain, in order."""
    return sorted(int(name.removeprefix("candidates.")) for name in tensors if name.startswith("candidates."))


def from_tensors(
    tensors: Mapping[str, np.ndarray], width: int, name: str = "", membership: Membership = Membership()
) -> Effects:
    """The effects in a file's tensors; `width` is the neurons of a layer, `name` the cell's (`name_of`)."""
    layers = layers_in(tensors)
    return Effects(
        {layer: tensors[f"effects.{layer}"] for layer in layers},
        {layer: tensors[f"candidates.{layer}"] for layer in layers},
        width,
        name,
        membership,
        {layer: tensors[f"probability_change.{layer}"] for layer in layers},
    )


def most_shown(ranked: int) -> int:
    """The largest k that is shown, and at which *same* is claimed: a quarter of a layer's candidates.

    Larger sets of two formats with the same candidates share more than a seventh of their neurons by chance.
    """
    return max(ranked // 4, 1)


def name_of(cell: str | tuple[str, str]) -> str:
    """The name of a format, or of a format and an operator."""
    return cell if isinstance(cell, str) else "/".join(cell)


def common_layers(cells: Mapping[Key, Effects], ks: Sequence[int]) -> list[int]:
    """The cells' layers, after checking that all have the same and that every k can be chosen in each.

    Raises:
        UserError: layers differ, or a k is larger than the number of ranked neurons of a layer.
    """
    shapes = {name_of(key): (sorted(cell.candidates), cell.width) for key, cell in cells.items()}
    if any(shape != next(iter(shapes.values())) for shape in shapes.values()):
        listed = "; ".join(f"{name}: layers {layers} of {width}" for name, (layers, width) in shapes.items())
        raise UserError(f"the formats' indirect effects have different layers ({listed}); rank all formats alike")
    for key, cell in cells.items():
        for layer, candidates in cell.candidates.items():
            if max(ks) > len(candidates):
                raise UserError(
                    f"k: {max(ks)} is larger than the {len(candidates)} ranked neurons of layer {layer} in format "
                    f"{name_of(key)}; the model has {cell.width} neurons a layer: lower k or raise candidates"
                )
    return list(next(iter(cells.values())).candidates)


def read_effects(paths: Mapping[Key, Path], membership: Membership) -> dict[Key, Effects]:
    """Each cell's indirect effects, from the file of each format, or of each (format, operator)."""
    cells = {}
    for key, path in paths.items():
        tensors, provenance = read_tensors(path, "indirect_effects")
        cells[key] = from_tensors(tensors, provenance["d_mlp"], name_of(key), membership)
    return cells
