"""Prompts of several lengths in batches of one length."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from form_invariance.model.batches import by_length, in_order
from form_invariance.problems.prompts import PAD


def padded(lengths):
    """Row r has the tokens 100 r, 100 r + 1, ... at its end."""
    longest = max(lengths)
    rows = [[PAD] * (longest - n) + [100 * row + place for place in range(n)] for row, n in enumerate(lengths)]
    return torch.tensor(rows)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 5))
def test_batches_have_one_length_each_and_no_padding(lengths, size):
    seen = []
    for rows, tokens in by_length(padded(lengths), size):
        assert len(rows) == len(tokens) <= size
        for row, ids in zip(rows.tolist(), tokens.tolist(), strict=True):
            assert ids == [100 * row + place for place in range(lengths[row])]
            seen.append(row)
    assert sorted(seen) == list(range(len(lengths)))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from([0, 1, -1]))
def test_what_batches_give_is_put_in_the_order_of_the_prompts(lengths, size, dim):
    rows, batches = zip(*by_length(padded(lengths), size), strict=True)
    found = [own[:, -1].repeat(3, 1).movedim(1, dim) for own in batches]
    expected = padded(lengths)[:, -1].repeat(3, 1).movedim(1, dim)
    assert torch.equal(in_order(rows, found, dim), expected)
