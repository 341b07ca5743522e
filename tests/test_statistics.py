import numpy as np
import pytest
import scipy.stats

from form_invariance.statistics import less, ranks, resampled_interval, student_factor, wilson


@pytest.mark.parametrize("different", [1, 2, 7, 1000], ids=lambda n: f"{n} different values")
@pytest.mark.parametrize("shape", [(0,), (1,), (40,), (6, 33), (3, 2, 17)], ids=str)
def test_ranks_are_those_of_a_plain_sort(shape, different):
    rng = np.random.default_rng(different)
    values = rng.choice(np.append(rng.normal(size=different - 1), -0.0), shape)
    values[values == 0] *= rng.choice([-1, 1])
    numbers = rng.permutation(shape[-1]) + 5
    found = ranks(values, numbers)
    for place in np.ndindex(shape[:-1]):
        row = values[place]
        best = sorted(range(shape[-1]), key=lambda neuron: (-row[neuron], numbers[neuron]))
        assert found[place].tolist() == [best.index(neuron) for neuron in range(shape[-1])]


def test_an_interval_is_that_of_the_resamples_that_have_a_value_or_students():
    values = np.append([0.3, np.nan], np.arange(101) / 100)
    assert resampled_interval(values) == (0.3, *np.quantile(values[2:], [0.025, 0.975]))
    assert np.isnan(resampled_interval(np.array([np.nan, 1.0, 2.0, 3.0]))).all()
    assert np.isnan(resampled_interval(np.array([0.3, np.nan, 1.0]))[1:]).all()
    assert [student_factor(n) for n in (4, 5)] == pytest.approx([np.nan, scipy.stats.t(4).ppf(0.975)], nan_ok=True)


def test_wilson_by_hand():
    low, high = wilson(np.array([0, 5, 10, 0]), np.array([10, 10, 10, 0]))
    np.testing.assert_allclose(low, [0, 0.2366, 0.7225, np.nan], atol=1e-4)
    np.testing.assert_allclose(high, [0.2775, 0.7634, 1, np.nan], atol=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "limits"), [((56, 70), (48, 80), (0.0524, 0.3339)), ((9, 10), (3, 10), (0.1705, 0.8090))]
)
def test_the_difference_of_two_rates_has_the_limits_of_newcombe(first, second, limits):
    """Newcombe 1998, Statistics in Medicine 17:873, table II, method 10: from the rates' Wilson intervals."""
    rates = []
    for right, total in (first, second):
        low, high = wilson(np.array([right]), np.array([total]))
        rates.append((right / total, float(low[0]), float(high[0])))
    difference, *found = less(*rates)
    assert difference == rates[0][0] - rates[1][0]
    assert found == pytest.approx(limits, abs=5e-5)
