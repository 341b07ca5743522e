"""Options of rules, by names."""

import pytest

from form_invariance.workflow.rule_options import settings_of


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, ["--center-logits"]), (False, ["--no-center-logits"]), ([2, 1], ["--center-logits", "1", "2"])],
)
def test_settings_as_options(value, words):
    config = {"center_logits": value, "k_shown": 5}
    assert settings_of(config, "center_logits", max_k="k_shown") == [*words, "--max-k", "5"]
