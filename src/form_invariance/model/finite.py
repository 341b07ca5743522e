"""Numbers that are none end a job with a sentence, before they reach a table."""

from torch import Tensor

from form_invariance.errors import UserError


def check_finite(values: Tensor, what: str) -> Tensor:
    """The values, if they are finite numbers.

    Args:
        what: they are, for the sentence; in the plural.

    Raises:
        UserError: one is infinite or not a number.
    """
    if not values.isfinite().all():
        raise UserError(f"{what} are not finite numbers in {values.dtype}; use dtype float32, or another model")
    return values
