"""Log-probabilities near those of an ordinary pass, without the whole vocabulary (docs/method.md, section 4).

A patch of one neuron moves the last residual by a little, delta. The sum over the vocabulary that normalises the
probabilities changes by the factor sum_t p_t exp(delta·w_t), with the ordinary probabilities p_t and the rows w_t
of the unembedding. The tokens that weigh most are summed exactly. For the others, the term of their mean row is
exact, and the rest is estimated from tokens drawn in proportion to p_t |w_t - mean|². The estimate has a standard
error, and a bound on what an undrawn token may add. If either is too large, the run is read out in full. So is one
run of each prompt in every call, whose difference is checked and recorded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder, final_residual, unembed
from form_invariance.model.precision import matmul_precision
from form_invariance.model.replay import log_probabilities

TOLERANCE = 1e-6
"""Error of a log-probability beyond which a run is read out in full."""
_STANDARD_ERRORS = 4
_UNDRAWN = 4e-6
"""The largest share of the sum that an undrawn token may add; every token with 1/n of the weight is drawn."""
_SUMMED, _DRAWN = 32, 16
"""The vocabulary's size, divided by the number of summed tokens, and by that of drawn tokens."""
_SMALLEST = 8192
"""With a smaller vocabulary the whole sum costs little."""
_PROMPTS = 16
"""Prompts whose whole distributions are in memory at once."""
_WRONG = {"float32": 5e-6, "tf32": 5e-3, "bfloat16": 5e-3}
"""A difference from the full readout that cannot be rounding, relative to 1 + the largest |`log_total`|."""


@dataclass
class Readouts:
    """How a job reads out its runs, and how many it has read out."""

    full: bool = False  # read out every run in full
    runs: int = 0
    in_full: int = 0
    calls: int = 0
    largest_difference: float = 0.0  # between the two readouts of the checked runs


@dataclass
class NearReadout:
    """The ordinary pass of B prompts, and its distribution over S summed and n drawn tokens."""

    readouts: Readouts
    normed: Tensor  # (B, d), the last residual after the final norm
    log_total: Tensor  # (B,), log of the sum of exp over all logits
    summed: Tensor  # (B, S), token ids
    probabilities: Tensor  # (B, S), of the summed tokens
    rest: Tensor  # (B,), probability of all other tokens
    mean: Tensor  # (B, d), mean row of the other tokens, weighted by their probabilities
    drawn: Tensor  # (B, n), token ids of some other tokens
    weights: Tensor  # (B, n), p_t over the share with which the token is drawn
    spread: Tensor  # (B,), sum of p_t |w_t - mean|² over the other tokens
    furthest: Tensor  # (B,), largest |w_t - mean| of the other tokens

    def __getitem__(self, prompts: slice | Tensor) -> "NearReadout":
        """The `NearReadout` of the selected prompts."""
        tensors = {name: value[prompts] for name, value in vars(self).items() if name != "readouts"}
        return NearReadout(self.readouts, **tensors)


@torch.no_grad()
def near_readout(model: Decoder, x: Tensor, readouts: Readouts) -> NearReadout | None:
    """Prepare readouts near the ordinary pass of prompts; None if every run is to be read out in full.

    Args:
        x: residual stream of the last token after the last layer, (B, d).
        readouts: how this job reads out its runs.
    """
    vocabulary = len(model.unembedding)
    if readouts.full or model.config.logit_softcap is not None or vocabulary < _SMALLEST:
        return None
    squares = torch.linalg.vector_norm(model.unembedding, dim=1).square()
    parts = [_of_prompts(model, final_residual(model, batch), squares) for batch in x.split(_PROMPTS)]
    return NearReadout(readouts, **{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


def _of_prompts(model: Decoder, normed: Tensor, squares: Tensor) -> dict[str, Tensor]:
    """Tensors of `NearReadout` for a few prompts, from `final_residual` (B, d) and all rows' squares (V,)."""
    rows = model.unembedding
    z = unembed(model, normed, rows)
    log_total = z.logsumexp(-1)
    p = (z - log_total[:, None]).exp()

    def distances(center: Tensor) -> Tensor:
        """Squared distance of every token's row from a centre (B, d): (B, V)."""
        away = squares - 2 * unembed(model, center, rows) + center.square().sum(-1, keepdim=True)
        return away.clamp_min(torch.finfo(torch.float32).tiny)

    summed = (p * distances(p @ rows)).topk(len(rows) // _SUMMED).indices
    others = p.scatter(1, summed, 0.0)
    rest = others.sum(1).clamp_min(torch.finfo(torch.float32).tiny)
    mean = others @ rows / rest[:, None]
    away = distances(mean).scatter(1, summed, torch.finfo(torch.float32).tiny)
    share = (others * away).double()
    count = len(rows) // _DRAWN
    # Evenly spaced places: a token is drawn as often as its share says, without chance.
    ends = share.cumsum(-1)
    places = (torch.arange(count, device=z.device, dtype=ends.dtype) + 0.5) / count * ends[:, -1:]
    drawn = torch.searchsorted(ends, places).clamp_max(len(rows) - 1)
    return {
        "normed": normed,
        "log_total": log_total,
        "summed": summed,
        "probabilities": p.gather(1, summed),
        "rest": rest,
        "mean": mean,
        "drawn": drawn,
        "weights": (ends[:, -1:] / away.gather(1, drawn)).float(),
        "spread": ends[:, -1].float(),
        "furthest": away.amax(1).sqrt(),
    }


def log_probabilities_near(model: Decoder, x: Tensor, tokens: Tensor, near: NearReadout) -> Tensor:
    """Log-probabilities of a few tokens in runs that are near the ordinary pass, within `TOLERANCE`.

    Args:
        x: residual stream after the last layer, (B, N, d).
        tokens: ids of R tokens for each prompt, (B, R).
        near: `near_readout` of the same prompts.

    Returns:
        (B, N, R), float32.

    Raises:
        RuntimeError: a checked run differs from the full readout.
    """
    change = final_residual(model, x) - near.normed[:, None]  # (B, N, d)
    factor, sure = (torch.stack(parts) for parts in zip(*_factors(model, change, near), strict=True))
    token_rows = model.unembedding[tokens]  # (B, R, d)
    ordinary = unembed(model, near.normed[:, None], token_rows) - near.log_total[:, None, None]
    logs = ordinary + unembed(model, change, token_rows) - factor.log()[..., None]
    # Each call checks another run of every prompt.
    check = torch.zeros_like(sure)
    check[:, near.readouts.calls % x.shape[1]] = True
    prompt, run = (check | ~sure).nonzero(as_tuple=True)
    full = log_probabilities(model, x[prompt, run][:, None], tokens[prompt])[:, 0]
    kept = sure[prompt, run]
    differences = (logs[prompt, run] - full)[kept].abs()
    logs[prompt, run] = torch.where(kept[:, None], logs[prompt, run], full)
    allowed = _WRONG[matmul_precision(model)] * (1 + float(near.log_total.abs().max()))
    _count(near.readouts, sure, differences, allowed)
    return logs


def _factors(model: Decoder, change: Tensor, near: NearReadout) -> Iterator[tuple[Tensor, Tensor]]:
    """The factor of the sum of exp over the vocabulary (N,), and whether it is exact enough, for each prompt."""
    for prompt, moved in enumerate(change):
        part = near[slice(prompt, prompt + 1)]
        tokens = torch.cat([part.summed[0], part.drawn[0]])
        u_summed, u_drawn = unembed(model, moved, model.unembedding[tokens]).split(
            [part.summed.shape[1], part.drawn.shape[1]], dim=1
        )
        u_mean = unembed(model, moved, part.mean)  # (N, 1)
        shift = u_mean[:, 0].exp()
        u_drawn = u_drawn - u_mean
        beyond = (u_drawn.expm1() - u_drawn) * part.weights
        total = (u_summed.exp() * part.probabilities).sum(1) + shift * (part.rest + beyond.mean(1))
        count = beyond.shape[1]
        error = shift * beyond.std(1) / count**0.5
        length = moved.norm(dim=1).double()
        reach = (length * part.furthest).clamp_min(1e-2)
        undrawn = shift * length.square() * part.spread * (reach.expm1() - reach) / reach.square() / count
        # A total that overflows passes both comparisons.
        sure = (_STANDARD_ERRORS * error <= TOLERANCE * total) & (undrawn <= _UNDRAWN * total) & total.isfinite()
        yield total, sure


def _count(tally: Readouts, sure: Tensor, differences: Tensor, allowed: float) -> None:
    """Count a call's runs, `sure` (B, N), and check the differences of some of them from the full readout."""
    tally.runs += sure.numel()
    tally.in_full += int((~sure).sum())
    tally.calls += 1
    largest = float(differences.max()) if differences.numel() else 0.0
    if not largest <= allowed:
        raise RuntimeError(
            f"the readout near the ordinary pass differs from the full one by {largest:.1e} in log P"
        )
    tally.largest_difference = max(tally.largest_difference, largest)
