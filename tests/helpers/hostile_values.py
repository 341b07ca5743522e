"""Values of any kind and at any place, for tests that a mistake in them gives one sentence."""

import yaml
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from stub_checkout import ROOT

from form_invariance.errors import UserError

SMALL = {
    **yaml.safe_load((ROOT / "config/config.yaml").read_text()),
    "models": {"m": {"source": "embedded:embedded-shared"}},
    "operands": {"operand_min": 6, "operand_max": 12, "answer_min": 3, "answer_max": 40},
    "operators": {"addition": "a + b"},
    "train_prompts": 10,
    "eval_prompts": 10,
}
NASTY = st.sampled_from(
    [
        *("../../etc", "a/b", "$(touch x)", "`id`", "; rm -rf /", "a b", "é", "١٢", "\u202eabc"),
        *("{wildcard}", "-rf", "~", "."),
    ]
)
TEXTS = st.one_of(st.text(max_size=20), NASTY)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
FUZZ = settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck), derandomize=True)


def places(config, above=()):
    """The path of every key of a configuration."""
    for key, value in config.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from places(value, (*above, key))


def refusal(call, *arguments):
    """What a call returns, and the one line in which it refuses, if it does."""
    try:
        return call(*arguments), ""
    except UserError as error:
        text = str(error)
    assert text
    assert "\n" not in text
    return None, text
