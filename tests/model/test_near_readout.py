"""Log-probabilities near the ordinary pass, compared with the whole sum in float64."""

from types import SimpleNamespace

import pytest
import torch

from form_invariance.model import near_readout as module
from form_invariance.model.near_readout import Readouts, log_probabilities_near, near_readout

VOCABULARY, WIDTH, PROMPTS, RUNS = 20_000, 48, 3, 40


def head(rows, softcap=None):
    """A model that is a head alone, without a final norm."""
    config = SimpleNamespace(logit_softcap=softcap, norm_epsilon=1e-5)
    return SimpleNamespace(unembedding=rows, final_norm=None, config=config, device=rows.device, dtype=rows.dtype)


def compared(rows, ordinary, x):
    """Largest difference from the exact log-probabilities, and the readouts' counts."""
    model, readouts = head(rows), Readouts()
    tokens = torch.stack([torch.randint(len(rows), (len(x),)), (ordinary @ rows.T).argmax(-1)], dim=1)
    found = log_probabilities_near(model, x, tokens, near_readout(model, ordinary, readouts))
    exact = (x.double() @ rows.double().T).log_softmax(-1)  # (B, N, V)
    return (found - exact.gather(-1, tokens[:, None].expand(-1, x.shape[1], -1))).abs().max(), readouts


def cloud(scale=0.3, peaked=3.0):
    torch.manual_seed(0)
    return torch.randn(VOCABULARY, WIDTH) * scale, torch.randn(PROMPTS, WIDTH) * peaked


def moved(ordinary, size):
    return ordinary[:, None] + size * torch.randn(PROMPTS, RUNS, WIDTH)


@pytest.mark.parametrize("size", [0.0, 0.01, 0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("peaked", [0.3, 3.0, 20.0])
def test_log_probabilities_are_exact_after_changes_of_any_size(size, peaked):
    rows, ordinary = cloud(peaked=peaked)
    x = moved(ordinary, size)
    error, readouts = compared(rows, ordinary, x)
    # float32 rounds logits of this size by as much.
    assert error <= 2e-6 + 4e-7 * float((x @ rows.T).abs().max())
    assert readouts.runs == PROMPTS * RUNS
    if size <= 0.01 and peaked >= 3:
        assert readouts.in_full == 0
    if size >= 30:
        assert readouts.in_full == readouts.runs


def test_small_changes_are_not_read_out_in_full_though_the_tail_matters():
    """In a flat distribution the tail has most of the mass, and its mean alone would be wrong."""
    rows, ordinary = cloud(scale=0.5, peaked=0.1)
    error, readouts = compared(rows, ordinary, moved(ordinary, 8e-4))
    assert error < 2e-6
    assert readouts.in_full == 0
    assert near_readout(head(rows), ordinary, Readouts()).rest.min() > 0.5


def test_a_token_that_is_far_away_in_the_tail_is_not_missed():
    """The mean of two opposite, improbable rows is zero; a run along them makes one of them probable."""
    rows, ordinary = cloud()
    rows[7:9] = 0.0
    rows[7:9, 0] = torch.tensor([40.0, -40.0])
    # The two tokens are improbable.
    ordinary[:, :2] = torch.tensor([0.0, 1.0])
    rows[7:9, 1] = -30.0
    for size in (0.05, 0.3, 0.6, 1.0):
        x = ordinary[:, None].repeat(1, RUNS, 1)
        x[:, :, 0] = size * torch.linspace(-1, 1, RUNS)
        assert compared(rows, ordinary, x)[0] < 2e-5, size


def test_a_sum_that_overflows_is_read_out_in_full():
    rows, ordinary = cloud()
    rows[:, :PROMPTS] = ordinary[:, :PROMPTS] = 0.0
    x = ordinary[:, None].repeat(1, RUNS, 1)
    for prompt, best in enumerate((ordinary @ rows.T).argmax(-1)):
        rows[best, prompt], x[prompt, :, prompt] = 40.0, 25.0
    _, readouts = compared(rows, ordinary, x)
    assert readouts.in_full == readouts.runs


def test_the_drawn_part_is_needed_and_its_error_is_told(monkeypatch):
    """If too few tokens are drawn, runs whose error exceeds the tolerance are read out in full."""
    monkeypatch.setattr(module, "_DRAWN", 2_000)
    monkeypatch.setattr(module, "_SUMMED", 200)
    rows, ordinary = cloud(scale=0.5, peaked=1.0)
    error, readouts = compared(rows, ordinary, moved(ordinary, 0.1))
    assert error < 5e-6
    assert readouts.in_full > 0.9 * readouts.runs


def test_one_run_of_every_prompt_is_checked(monkeypatch):
    rows, ordinary = cloud()
    x = moved(ordinary, 0.02)
    assert 0 < compared(rows, ordinary, x)[1].largest_difference < 1e-5
    right = module._factors
    monkeypatch.setattr(module, "_factors", lambda *given: ((1.001 * one, sure) for one, sure in right(*given)))
    with pytest.raises(RuntimeError, match=r"differs from the full one by 1\.0e-03"):
        compared(rows, ordinary, x)


def test_what_is_always_read_out_in_full():
    rows, ordinary = cloud()
    assert near_readout(head(rows), ordinary, Readouts(full=True)) is None
    assert near_readout(head(rows[:1000]), ordinary, Readouts()) is None
    assert near_readout(head(rows, softcap=30.0), ordinary, Readouts()) is None
