"""Intervals over prompts and cells, compared with brute force and with normal theory."""

import numpy as np
import pytest

from form_invariance.statistics import hierarchical_interval, paired_interval, ranks, verdict


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


def test_paired_interval_is_the_normal_one_for_many_prompts():
    values = np.random.default_rng(0).normal(0.3, 1.0, 4000)
    mean, low, high = paired_interval(values, 2000, 0, "test")
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert mean == values.mean()
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.1 * half)


def test_hierarchical_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    held, runs, cells = 0, 200, 12
    for run in range(runs):
        truth = rng.normal(0.5, 0.3, cells)
        values = [rng.normal(one, 1.0, rng.integers(20, 60)) for one in truth]
        _, low, high = hierarchical_interval(values, 400, run, "test")
        held += low <= 0.5 <= high
    # A percentile bootstrap of twelve cells is a little narrow; one of prompts alone would hold the truth in 70 %.
    assert held / runs > 0.88


def test_hierarchical_interval_agrees_with_a_loop():
    rng = np.random.default_rng(2)
    values = [rng.normal(size=size) for size in (5, 9, 30)]
    means = []
    for _ in range(4000):
        drawn = [values[cell] for cell in rng.integers(3, size=3)]
        means.append(np.mean([rng.choice(one, len(one)).mean() for one in drawn]))
    _, low, high = hierarchical_interval(values, 4000, 0, "test")
    assert (low, high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.03)


def test_undefined_values_and_empty_cells_are_left_out():
    values = np.array([0.0, 1.0, np.nan])
    assert hierarchical_interval([values, np.array([]), np.array([np.nan])], 50, 0)[0] == 0.5
    assert np.isnan(hierarchical_interval([], 50, 0)).all()
    assert np.isnan(paired_interval(np.array([np.nan]), 50, 0)).all()


def test_the_interval_depends_on_seed_and_names_alone():
    cells = [np.arange(10.0), np.arange(4.0)]
    assert hierarchical_interval(cells, 100, 3, "a") == hierarchical_interval(cells, 100, 3, "a")
    assert hierarchical_interval(cells, 100, 3, "a") != hierarchical_interval(cells, 100, 3, "b")


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 0.2, "yes"),
        (-0.2, -0.1, "no"),
        (-0.1, 0.1, "undecided"),
        (0.0, 0.1, "undecided"),
        (np.nan, 1, "undefined"),
    ],
)
def test_verdict(low, high, said):
    assert verdict(low, high) == said
