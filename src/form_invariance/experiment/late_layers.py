"""Where the late layers begin: the layers whose neurons are ranked and ablated (method, section 3)."""

from form_invariance.errors import UserError


def first_late_layer(late_from: str, n_layers: int) -> int:
    """The first late layer of `n_layers`; `late_from` is half_depth or this layer.

    Raises:
        UserError: `late_from` is neither.
    """
    if late_from == "half_depth":
        return n_layers // 2
    if not late_from.isdecimal() or int(late_from) >= n_layers:
        raise UserError(
            f"late_from: {late_from!r} must be 'half_depth' or a layer of 0..{n_layers - 1} of this model"
        )
    return int(late_from)
