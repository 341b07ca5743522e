"""KEY=VALUE items of the command line, whose keys may have several parts."""

from collections.abc import Sequence

from form_invariance.errors import UserError


def keyed_values(items: Sequence[str], option: str, form: str) -> dict[tuple[str, ...], str]:
    """Read KEY=VALUE items, in order.

    Args:
        option: for messages.
        form: of the items, for instance FORMAT/OPERATOR=FILE, whose keys have two parts.

    Raises:
        UserError: an item does not have this form, or a key is given twice.
    """
    values: dict[tuple[str, ...], str] = {}
    for item in items:
        name, _, value = item.partition("=")
        key = tuple(name.split("/"))
        if not (all(key) and value) or len(key) != len(form.partition("=")[0].split("/")):
            raise UserError(f"{option}: {item!r} must have the form {form}")
        if key in values:
            raise UserError(f"{option}: {name!r} is given twice")
        values[key] = value
    return values
