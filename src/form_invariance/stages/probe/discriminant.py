"""Linear discriminants in closed form, many at once (method, section 3).

Every class is a Gaussian around its mean, with one covariance for all classes, so the scores of classes are linear
in x. There is no optimiser, learning rate or number of steps. A fit solves one (d, d) system, or an (n, n) system
if there are fewer examples than features. Features are scaled to a within-class variance of 1, and their
correlations R are shrunk to (1 - s) R + s I. Shapes:

    G probes, n examples, d features, C classes
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SHRINKAGES = (0.1, 0.5, 0.9)
"""The values among which `choose_shrinkage` chooses."""

_SMALLEST = 1e-6


@dataclass
class Statistics:
    """The moments of the training examples from which discriminants are solved."""

    center: Tensor  # (G, 1, d): mean of all examples
    scale: Tensor  # (G, 1, d): within-class standard deviation
    means: Tensor  # (G, C, d): class means, centred and scaled
    within: Tensor  # (G, n, d): deviations from the class means, scaled so that R = within^T within
    products: Tensor  # R (G, d, d), or within within^T (G, n, n) if that is smaller
    log_prior: Tensor  # (C,)


@dataclass
class Discriminant:
    """The scores of classes are ((x - center) / scale) @ weights + bias; the highest wins."""

    center: Tensor  # (G, 1, d)
    scale: Tensor  # (G, 1, d)
    weights: Tensor  # (G, d, C)
    bias: Tensor  # (G, 1, C)


def statistics(x: Tensor, index: Tensor, classes: int) -> Statistics:
    """The statistics of training examples.

    Args:
        x: training examples, (G, n, d).
        index: the examples' classes, (n,); each of 0..classes-1 occurs.
    """
    order = index.argsort(stable=True)
    counts = index.bincount(minlength=classes)
    center = x.mean(1, keepdim=True)
    x = x[:, order] - center
    # Sums have a fixed order: on a GPU a scattered sum would differ from run to run.
    means = torch.segment_reduce(x, "sum", lengths=counts.expand(len(x), -1).contiguous(), axis=1)
    means = means / counts[:, None]
    within = x - means.repeat_interleave(counts, dim=1)
    freedom = max(1, x.shape[1] - classes)
    scale = (within.square().sum(1, keepdim=True) / freedom).sqrt()
    # Avoid division by zero for a feature that is constant within classes.
    scale = scale.clamp_min(_SMALLEST * x.square().mean((1, 2), keepdim=True).sqrt()).clamp_min(1e-30)
    within = within / (scale * freedom**0.5)
    products = within @ within.mT if within.shape[1] < within.shape[2] else within.mT @ within
    return Statistics(center, scale, means / scale, within, products, (counts / len(index)).log())


def solve(moments: Statistics, shrinkage: Tensor) -> Discriminant:
    """The discriminants from statistics, and the shrinkage of each probe, (G,), above 0 and at most 1."""
    share = shrinkage[:, None, None]
    identity = torch.eye(moments.products.shape[-1], dtype=share.dtype, device=share.device)
    factor = torch.linalg.cholesky((1 - share) * moments.products + share * identity)
    means, within = moments.means.mT, moments.within
    if within.shape[1] < within.shape[2]:
        # Woodbury: [sI + (1 - s) W^T W]^-1 = [I - (1 - s) W^T (sI + (1 - s) W W^T)^-1 W] / s.
        weights = (means - (1 - share) * within.mT @ torch.cholesky_solve(within @ means, factor)) / share
    else:
        weights = torch.cholesky_solve(means, factor)
    distance = (means * weights).sum(1, keepdim=True)
    return Discriminant(moments.center, moments.scale, weights, moments.log_prior - 0.5 * distance)


def predict(probe: Discriminant, x: Tensor) -> Tensor:
    """The most probable class of each example x (G, n, d), as (G, n)."""
    scores = torch.baddbmm(probe.bias, (x - probe.center) / probe.scale, probe.weights)
    return scores.argmax(-1)


def fit(x: Tensor, labels: Tensor, shrinkage: Tensor) -> tuple[Discriminant, Tensor]:
    """Discriminants of x (G, n, d) with labels (n,), and the label of each class (C,)."""
    classes, index = labels.unique(return_inverse=True)
    return solve(statistics(x, index, len(classes)), shrinkage), classes


def choose_shrinkage(x: Tensor, labels: Tensor, held_out: Tensor) -> Tensor:
    """The shrinkage of each probe, (G,), that predicts held-out examples best; the largest if several do.

    Args:
        x: training examples, (G, n, d).
        labels: the examples' labels, (n,).
        held_out: which examples are predicted, bool, (n,); the others are fitted.
    """
    fitted = ~held_out
    if not held_out.any() or not fitted.any():
        return x.new_full((len(x),), max(SHRINKAGES))
    classes, index = labels[fitted].unique(return_inverse=True)
    moments = statistics(x[:, fitted], index, len(classes))
    best, shrinkage = -x.new_ones(len(x)), x.new_empty(len(x))
    for share in sorted(SHRINKAGES, reverse=True):
        probe = solve(moments, x.new_full((len(x),), share))
        right = (classes[predict(probe, x[:, held_out])] == labels[held_out]).sum(1)
        shrinkage = torch.where(right > best, share, shrinkage)
        best = torch.maximum(best, right)
    return shrinkage
