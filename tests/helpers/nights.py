"""Parameters of which `make test` runs the first alone."""

from collections.abc import Iterable

import pytest


def at_night(values: Iterable) -> list:
    """The values as parameters; all but the first are of the nightly tests."""
    first, *others = values
    if isinstance(first, tuple):
        return [first, *(pytest.param(*one, marks=pytest.mark.nightly) for one in others)]
    return [first, *(pytest.param(one, marks=pytest.mark.nightly) for one in others)]
