"""Parameters of which `make test` runs the first alone."""

from collections.abc import Iterable

import pytest


def at_night(values: Iterable) -> list:
    """The values (tuples) as parameters; all but the first are of the nightly tests."""
    first, *others = values
    return [first, *(pytest.param(*one, marks=pytest.mark.nightly) for one in others)]
