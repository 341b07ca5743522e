"""Transfer against TransformerLens hooks over whole sequences, and the choice of pairs."""

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from test_patching import PROMPTS

from form_invariance.model.readout import read_out
from form_invariance.model.replay import build_cache, replay
from form_invariance.stages.run import Run
from form_invariance.stages.transfer.compute import (
    Condition,
    Donors,
    Group,
    Shares,
    pair_censuses,
    plan_direction,
    run_group,
    transfer_neurons,
)
from form_invariance.stages.transfer.directions import plan


@pytest.mark.parametrize("partly", [False, True])
def test_transfer_equals_hooks(tiny, tiny_folder, partly):
    model, tokenizer = tiny
    pairs = [(226, 68), (17, 433), (99, 6)]
    first, layers, width = 2, 4, model.config.d_mlp

    def encode(name):
        return torch.from_numpy(tokenizer.encode_batch([PROMPTS[name].format(a=a, b=b) for a, b in pairs]))

    target, donor = encode("symbolic"), encode("word")
    answers = torch.from_numpy(tokenizer.number_tokens([a + b for a, b in pairs]))
    generator = torch.Generator().manual_seed(0)
    shares = (torch.rand(4, layers - first, width, generator=generator) < 0.4).float()
    if partly:
        shares *= torch.rand(shares.shape, generator=generator)
        shares[0] = 0.25
    bridge = oracles.bridge(tiny_folder)
    given = oracles.all_neurons(bridge, donor, range(first, layers))[:, :, -1]  # (late, B, m)
    got = transfer_neurons(model, build_cache(model, target, first), given, shares, answers, True)
    plain = oracles.last_logits(bridge, target)
    for setting, share in enumerate(shares):

        def hook_of(late, share=share):
            def hook(activation, hook):
                activation = activation.clone()
                activation[:, -1] = (1 - share[late]) * activation[:, -1] + share[late] * given[late]
                return activation

            return hook

        hooks = [(oracles.post_name(first + late), hook_of(late)) for late in range(layers - first)]
        z = oracles.last_logits(bridge, target, hooks)
        assert (z - plain).abs().max() > 1e-2
        np.testing.assert_allclose(
            got.normalized_logit[setting], oracles.normalized_logit(z, answers, True), atol=1e-4
        )
        assert got.predicted[setting].tolist() == z.argmax(-1).tolist()


def test_ends_are_exact(tiny):
    model, tokenizer = tiny
    tokens = torch.from_numpy(tokenizer.encode_batch(["17+68=", "99+6="]))
    cache = build_cache(model, tokens, 2)
    masks = torch.rand(3, 2, model.config.d_mlp, generator=torch.Generator().manual_seed(1)) < 0.5
    given = 100 * torch.randn(2, 2, model.config.d_mlp, generator=torch.Generator().manual_seed(2))

    def on_neurons(layer, post):
        return torch.where(masks[:, layer - 2], given[layer - 2][:, None], post)

    start = cache.residual[0][:, None].expand(-1, len(masks), -1)
    x = replay(model, cache, start, 2, on_neurons=on_neurons)
    answers = torch.tensor([5, 6])
    expected = read_out(model, x.transpose(0, 1), answers, True)
    got = transfer_neurons(model, cache, given, masks, answers, True)
    assert torch.equal(got.normalized_logit, expected.normalized_logit)


def census(correct, name):
    rows = [(a, b, a + b) for a in range(6, 16) for b in range(6, 12)]
    table = pd.DataFrame(rows, columns=["a", "b", "answer"])
    return table.assign(
        prompt=[f"{name} {a} {b}" for a, b, _ in rows], correct=[correct(a, b) for a, b, _ in rows]
    )


def test_conditions_choose_the_right_pairs():
    pairs = pair_censuses(census(lambda a, b: a != 7, "D"), census(lambda a, b: b > 8, "T"))
    failed, both = plan_direction(pairs, "D", "T", 1000, 0, "addition")
    right = {c.name: c for c in failed.conditions}
    assert len(failed.prompts) == 9 * 3
    assert all(int(p.split()[2]) <= 8 and int(p.split()[1]) != 7 for p in failed.prompts)
    assert [p.replace("T", "D") for p in failed.prompts] == right["matched"].donors == right["random"].donors
    other = right["mismatched"]
    assert (other.donor_answers != failed.answers[other.targets]).all()
    same = right["same_answer"]
    assert (same.donor_answers == failed.answers[same.targets]).all()
    assert all(d.replace("D", "T") != failed.prompts[t] for d, t in zip(same.donors, same.targets, strict=True))
    own = right["same_format"]
    assert own.format == "T"
    assert all(int(p.split()[2]) > 8 for p in own.donors)
    assert len(both.prompts) == 9 * 3
    assert {c.name for c in both.conditions} == {"harm_matched", "harm_random"}
    limited = plan_direction(pairs, "D", "T", 5, 0, "addition")
    assert [len(group.prompts) for group in limited] == [5, 5]
    again = plan_direction(pairs, "D", "T", 5, 0, "addition")
    assert [group.prompts for group in again] == [group.prompts for group in limited]
    assert len(plan({"D": pairs_of("D"), "T": pairs_of("T"), "U": pairs_of("U")}, 5, 0, "x")) == 6


def pairs_of(name):
    return census(lambda a, b: True, name)


def test_a_group_in_batches_and_a_condition_without_pairs(tiny, monkeypatch):
    run = Run(*tiny, first=2)
    pairs = [(6, 7), (8, 9), (10, 11), (12, 13), (14, 15)]
    prompts = [f"{a}+{b}=" for a, b in pairs]
    answers = np.array([a + b for a, b in pairs])
    donors = {"word": Donors(run, [PROMPTS["word"].format(a=a, b=b) for a, b in pairs])}
    given = [PROMPTS["word"].format(a=a, b=b) for a, b in pairs]
    some = Condition("some", np.array([4, 1, 0]), "word", [given[4], given[1], given[0]], answers[[4, 1, 0]])
    every = Condition("every", np.arange(5), "word", given, answers)
    nobody = Condition("nobody", np.array([], dtype=int), "word", [], np.array([], dtype=int))
    group = Group(prompts, answers, [every, some, nobody])
    shares = Shares(pd.DataFrame({"k": [1, 2]}), torch.rand(2, 2, run.width) < 0.5)
    whole = run_group(run, group, donors, shares, True)
    assert set(whole) == {"every", "some"}
    np.testing.assert_allclose(
        np.sort(whole["some"].after.normalized_logit[0]),
        np.sort(whole["every"].after.normalized_logit[0][[4, 1, 0]]),
        atol=1e-5,
    )
    monkeypatch.setattr("form_invariance.stages.transfer.compute.replayed_rows", lambda model: 4)
    pieces = run_group(run, group, donors, shares, True)
    np.testing.assert_allclose(
        pieces["every"].after.normalized_logit, whole["every"].after.normalized_logit, atol=1e-5
    )
