"""Stop a job with one sentence when a model gives NaN or infinity, before the values reach a table."""

from torch import Tensor

from form_invariance.errors import UserError


def check_finite(values: Tensor, what: str) -> Tensor:
    """Return the values if all of them are finite.

    Args:
        what: a plural noun for the message, such as "the model's logits".

    Raises:
        UserError: a value is infinite or NaN.
    """
    if not values.isfinite().all():
        raise UserError(f"{what} are not finite numbers in {values.dtype}; use dtype float32, or another model")
    return values
