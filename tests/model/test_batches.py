import torch
from hostile_values import FUZZ
from hypothesis import given
from hypothesis import strategies as st

from form_invariance.model.batches import by_length, in_order
from form_invariance.problems.prompts import PAD


@FUZZ
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from([0, 1, -1]))
def test_batches_have_one_length_and_no_padding_and_what_they_give_is_put_in_order(lengths, size, dim):
    # Row r has the tokens 100 r, 100 r + 1, ... at its end.
    own, longest = ([100 * row + place for place in range(n)] for row, n in enumerate(lengths)), max(lengths)
    tokens = torch.tensor([[PAD] * (longest - len(row)) + row for row in own])
    rows, batches = zip(*by_length(tokens, size), strict=True)
    for own, ids in zip(rows, batches, strict=True):
        assert len(own) <= size
        assert ids.tolist() == [[100 * row + place for place in range(lengths[row])] for row in own.tolist()]
    assert sorted(torch.cat(rows).tolist()) == list(range(len(lengths)))
    last, *found = (some[:, -1].repeat(3, 1).movedim(1, dim) for some in (tokens, *batches))
    assert torch.equal(in_order(rows, found, dim), last)
