import numpy as np
import pytest

from form_invariance.statistics import ranks


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
