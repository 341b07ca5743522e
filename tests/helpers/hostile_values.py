"""Values of any kind, for tests that a mistake in them gives one sentence."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from form_invariance.errors import UserError

NASTY = "../../etc|a/b|$(touch x)|`id`|; rm -rf /|a b|é|١٢|\u202eabc|{wildcard}|-rf|~|."
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(NASTY.split("|")))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
FUZZ = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)


def refusal(call, *arguments):
    """What a call returns, and the one line in which it refuses, if it does."""
    try:
        return call(*arguments), ""
    except UserError as error:
        text = str(error)
    assert text
    assert "\n" not in text
    return None, text
