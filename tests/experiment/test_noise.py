"""The noise of rankings against rankings by new train prompts, which a simulation can draw."""

import numpy as np
import pytest
from scipy.stats import t

from form_invariance.experiment.contrasts.noise import pooled

NEURONS, K = 400, 50


@pytest.mark.parametrize("prompts", [12, 32])
def test_halves_of_the_prompts_tell_the_spread_over_other_prompts(prompts):
    """The value: the true effect of the noisy k best. Its estimated variance is not too small or far too large."""
    rng = np.random.default_rng(0)
    true = rng.exponential(size=NEURONS) * rng.random(NEURONS) ** 2

    def value(effects):
        return true[np.argsort(-effects.mean(0))[:K]].sum()

    whole, halves = [], []
    for _ in range(400):
        effects = true + 2 * rng.normal(size=(prompts, NEURONS))
        whole.append(value(effects))
        halves.append([[value(half) for half in np.array_split(effects, 2)], [0, 0]])
    noise = pooled([("one", np.array(half)) for half in halves], averaged=False)
    spread = (noise.half(np.subtract) / t.ppf(0.975, 1)) ** 2 / np.var(whole)
    assert 0.8 < spread < 1.5


def test_rows_without_rankings_by_halves_have_no_noise():
    unknown = np.full((2, 2), np.nan)
    assert np.isnan(pooled([("one", unknown)], averaged=True).half(np.subtract))
    known = np.array([[3.0, 1.0], [0.0, 0.0]])
    noise = pooled([("one", unknown), ("two", known), ("three", 2 * known)], averaged=True)
    assert noise.half(np.subtract) == pytest.approx(t.ppf(0.975, 2) * np.sqrt((1**2 + 2**2) / 2 / 2))
