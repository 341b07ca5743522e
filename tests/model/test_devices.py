import pytest
import torch
from pretended_gpu import CARD, pretended_gpu


def test_what_a_card_refuses_the_pretended_one_refuses():
    with pretended_gpu():
        there, here = torch.ones(2, 3, device=CARD), torch.ones(2, 3)
        for forbidden, said in (
            (lambda: there + here, "same device"),
            (lambda: there.index_put_((torch.tensor([0]),), here[:1]), "same device"),
            (lambda: there.gather(1, torch.zeros(2, 1, dtype=torch.int64)), "same device"),
            (lambda: there.numpy(), "numpy"),
            (lambda: there.long() @ there.long().T, "multiplies no matrices"),
            (lambda: there.cumsum(1), "another order"),
            (lambda: there.scatter_add(1, torch.zeros(2, 3, dtype=torch.int64).to(CARD), there), "another order"),
            (lambda: there.index_put((torch.tensor([0, 0]),), there, accumulate=True), "another order"),
        ):
            with pytest.raises(RuntimeError, match=said):
                forbidden()
        assert ((there + 1)[torch.tensor([1])].cpu() == 2).all()
