"""What the last token's logits say about the right answer."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.batches import in_order
from form_invariance.model.decoder import Decoder, logits, sum_exp
from form_invariance.model.memory import logits_at_once


def check_finite(values: Tensor, what: str) -> Tensor:
    """Return the values if all of them are finite; `what` names them in the message, such as "the model's logits".

    Raises:
        UserError: a value is infinite or NaN.
    """
    if not values.isfinite().all():
        raise UserError(f"{what} are not finite numbers in {values.dtype}; use dtype float32, or another model")
    return values


@dataclass
class Readout:
    """What is measured at the last token; each tensor (...,) has one entry for each run."""

    normalized_logit: Tensor  # logit[r] / largest logit, 1 where r has the largest, float64
    correct: Tensor  # bool
    probability: Tensor  # float64
    predicted: Tensor  # int64, the most probable token
    margin: Tensor  # logit[r] - largest logit of another token, float64

    def metrics(self) -> dict[str, np.ndarray]:
        """What an ablation is measured by, the larger the better; each of the readout's shape, float64."""
        return {
            "accuracy": self.correct.double().cpu().numpy(),
            "probability": self.probability.cpu().numpy(),
            "normalized_logit": self.normalized_logit.cpu().numpy(),
            "margin": self.margin.cpu().numpy(),
        }

    def __getitem__(self, runs: int | Tensor | None) -> "Readout":
        """The readouts of some runs."""
        return Readout(*(getattr(self, field.name)[runs] for field in fields(self)))


def look_up(z: Tensor, targets: Tensor, what: str) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What logits z (n, V) say about one token each, targets (n,); z is overwritten.

    Args:
        what: the logits' name for messages, a plural noun.

    Returns:
        The token's logit, the largest logit, the mean logit, the token's probability, and its logit minus the
        largest of another token, (n,) float64; and the id of the most probable token (n,), the smallest id among
        equally probable ones.

    Raises:
        UserError: a logit is not finite.
    """
    # The mean is finite only if every logit is.
    mean = check_finite(z.mean(1), what).double()
    largest, predicted = z.max(1)
    answer, highest = z.gather(1, targets[:, None])[:, 0].double(), largest.double()
    others = z.scatter_(1, targets[:, None], -torch.inf).amax(1).double()
    exponential = (answer - highest).exp()
    probability = exponential / (exponential + sum_exp(z, largest[:, None]).double())
    return answer, highest, mean, probability, answer - others, predicted


def read_out(model: Decoder, x: Tensor, answers: Tensor, center: bool) -> Readout:
    """Measure the answers after the last layer.

    Args:
        x: residual stream of the last token after the last layer, (..., d).
        answers: token ids, broadcastable to (...).
        center: subtract the mean logit over the vocabulary. Normalised logits are not invariant to a
            constant added to the logits, and models differ in that constant.
    """
    shape = x.shape[:-1]
    rows, targets = x.reshape(-1, x.shape[-1]), answers.expand(shape).reshape(-1)
    step = logits_at_once(model)
    pieces = []
    for row_piece, target_piece in zip(rows.split(step), targets.split(step), strict=True):
        answer, largest, mean, probability, margin, predicted = look_up(
            logits(model, row_piece), target_piece, "the model's logits"
        )
        if center:
            answer, largest = answer - mean, largest - mean
        # The largest logit itself is 1, also where it is 0.
        normalized = torch.where(answer == largest, 1.0, answer / largest)
        pieces.append((normalized, probability, predicted, margin))
    ratios, probabilities, predicted, margins = (
        torch.cat(parts).view(shape) for parts in zip(*pieces, strict=True)
    )
    return Readout(ratios, predicted == answers, probabilities, predicted, margins)


def stack(readouts: Sequence[Readout], dim: int = -1) -> Readout:
    """Readouts joined along an axis."""
    return Readout(*(torch.cat([getattr(r, field.name) for r in readouts], dim) for field in fields(Readout)))


def join_prompts(rows: Sequence[Tensor], readouts: Sequence[Readout]) -> Readout:
    """Readouts (..., b) of batches of prompts, joined in the order of the prompts: (..., P).

    Args:
        rows: the prompts of each batch, from `batches.by_length`.
    """
    return Readout(
        *(in_order(rows, [getattr(r, field.name) for r in readouts], dim=-1) for field in fields(Readout))
    )
