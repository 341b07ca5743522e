import json

import numpy as np
import oracles
import pandas as pd
import pytest
import torch

from form_invariance.errors import UserError
from form_invariance.model import loading as models
from form_invariance.model.decoder import Decoder, LayerWeights, Norm, embed, run_layers
from form_invariance.model.sizes import DecoderConfig
from form_invariance.problems.operands import OperandRange, operand_pool
from form_invariance.problems.templates import render
from form_invariance.stages.probe import compute as probe
from form_invariance.stages.probe import summary as probe_summary

TEMPLATES = {"symbolic": "{a}+{b}=", "code": "a = {a}\nb = {b}\nprint(a + b)  # "}
SUM, LAYERS = 2, 4


def planted(tokenizer, onset):
    """A decoder whose layer `onset` adds up the numbers of all tokens, which it attends to evenly."""
    numbers, d = tokenizer.number_tokens(range(1000)), 4
    embedding = torch.zeros(tokenizer.tokenizer.get_vocab_size(), d)
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    embedding[numbers, 0] = (torch.arange(1000) + 0.1 * noise) / 1000
    embedding[:, 1] = (1 - embedding[:, 0] ** 2).clamp_min(0).sqrt()  # rows have norm 1, so norms change nothing

    zero, mlp, norm = torch.zeros(d, d), torch.zeros(3, d), Norm(torch.ones(d))
    rest = {"up": mlp, "gate": mlp, "down": mlp.T, "attention_norm": norm, "mlp_norm": norm}
    layers = []
    for number in range(LAYERS):
        output = torch.zeros(d, d)
        output[SUM, 0] = float(number == onset)
        layers.append(LayerWeights(query=zero, key=zero, value=torch.eye(d), output=output, **rest))
    sizes = {"n_layers": LAYERS, "d_model": d, "d_mlp": 3, "n_heads": 1, "n_key_value_heads": 1, "d_head": d}
    config = DecoderConfig(**sizes, vocabulary=len(embedding), norm_epsilon=1e-8, activation="silu")
    return Decoder(config, embedding, layers, norm, embedding)


def census(name, expression="a + b", correct=1.0):
    pool = operand_pool(expression, OperandRange(6, 40, 3, 80))
    template = TEMPLATES[name] if expression == "a + b" else TEMPLATES[name].replace("+", "-")
    right = np.random.default_rng(0).random(len(pool)) < correct
    pairs = list(zip(pool["a"], pool["b"], strict=True))
    fields = [json.dumps({"a": str(a), "b": str(b)}) for a, b in pairs]
    pool = pool.assign(prompt=[render(template, *pair) for pair in pairs], fields=fields)
    return pool.assign(answer_token=pool["answer"], uniform=True, correct=right)


@pytest.mark.parametrize("onset", [0, 1, 3])
def test_finds_a_planted_onset_and_where_the_operands_are_known(tiny, onset):
    chosen = probe.choose_prompts({("symbolic", "addition"): census("symbolic")}, 5000, 0)
    table = probe.run(planted(tiny[1], onset), tiny[1], chosen, 0)
    found = probe_summary.peak(probe_summary.curve(table))
    assert found.onset == found.layer == onset
    assert found.accuracy > 0.95
    pooled = table[table["operator"] == "all"].set_index(["layer", "position"])["accuracy"]
    assert probe.token_labels(tiny[1], chosen)[:4] == ["=", "{b}", "+", "{a}"]
    assert pooled[LAYERS - 1, 1] > 0.95  # the second operand's token has seen both
    assert max(pooled[layer, position] for layer in range(LAYERS) for position in (2, 3)) < 0.15
    assert (table["shuffled"] < 0.1).all()


def test_baselines_and_denominators_are_those_of_the_prompts(tiny):
    given = {("symbolic", "addition"): census("symbolic"), ("symbolic", "larger"): census("symbolic", "max(a, b)")}
    chosen = probe.choose_prompts(given, 300, 0)
    table = probe.run(planted(tiny[1], 1), tiny[1], chosen, 0)
    test = chosen["split"] == "test"
    for operator in ("all", "addition", "larger"):
        own = chosen if operator == "all" else chosen[chosen["operator"] == operator]
        train, held = own[~test[own.index]], own[test[own.index]]
        most = train["answer_token"].value_counts().sort_index().idxmax()
        row = table[table["operator"] == operator].iloc[0]
        assert (row["train_prompts"], row["test_prompts"]) == (len(train), len(held))
        assert row["answers"] == own["answer_token"].nunique()
        assert row["reachable"] == pytest.approx(held["answer_token"].isin(set(train["answer_token"])).mean())
        assert row["majority"] == pytest.approx((held["answer_token"] == most).mean())
        assert row["low"] <= row["accuracy"] <= row["high"]
    with pytest.raises(UserError, match="no prompt of any operator is left to t"):
        probe.run(planted(tiny[1], 1), tiny[1], probe.choose_prompts(given, 1, 0), 0)


def test_the_split_is_by_unordered_pair_over_everything():
    both = {"addition": "a + b", "subtraction": "a - b"}
    given = {(name, operator): census(name, both[operator]) for name in TEMPLATES for operator in both}
    chosen = probe.choose_prompts(given, 800, 3)
    sizes = {"addition": 800, "subtraction": len(census("symbolic", "a - b"))}
    assert chosen["operator"].value_counts().to_dict() == sizes
    pair = chosen[["a", "b"]].min(axis=1) * 1000 + chosen[["a", "b"]].max(axis=1)
    assert chosen.groupby(pair)["split"].nunique().max() == 1
    assert not chosen.duplicated(["operator", "a", "b"]).any()
    shares = chosen["split"].value_counts(normalize=True)
    assert 0.17 < shares["test"] < 0.23
    assert 0.13 < shares["held_out"] < 0.19


def test_only_right_uniform_answers_are_probed():
    table = census("symbolic", correct=0.5)
    table["uniform"] = np.arange(len(table)) % 3 > 0
    chosen = probe.choose_prompts({("symbolic", "addition"): table}, 5000, 0)
    assert set(chosen["prompt"]) == set(table.loc[table["correct"] & table["uniform"], "prompt"])
    table["correct"] = False
    with pytest.raises(UserError, match="symbolic/addition"):
        probe.choose_prompts({("symbolic", "addition"): table}, 5000, 0)


def test_work_in_pieces_gives_the_same_table(tiny, monkeypatch):
    chosen = probe.choose_prompts({("code", "addition"): census("code", correct=0.1)}, 5000, 0)
    whole = probe.run(tiny[0], tiny[1], chosen, 0)
    monkeypatch.setattr(probe, "_RESIDUAL_BYTES", 1)
    monkeypatch.setattr(probe, "_FIT_BYTES", 1)
    keys, cut = ["operator", "layer", "position"], probe.run(tiny[0], tiny[1], chosen, 0)
    pd.testing.assert_frame_equal(*(table.sort_values(keys, ignore_index=True) for table in (whole, cut)))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_beginning_that_prompts_share_runs_once_and_changes_nothing(family_folders, family):
    model = models.load(family_folders[family])
    rng = np.random.default_rng(0)
    # The groups share five tokens, all tokens but the last, and none.
    tokens = torch.from_numpy(rng.integers(5, 60, (9, 8)))
    tokens[:3, :5], tokens[3:6, :7] = tokens[0, :5].clone(), tokens[3, :7].clone()
    rows = [torch.tensor(one) for one in ([0, 7, 3], [1, 2, 8], [6, 5, 4])]
    found = probe.residuals(model, list(zip(rows, tokens.split(3), strict=True)), range(8), "test")
    with torch.no_grad():
        x = embed(model, tokens)
        for layer in range(model.config.n_layers):
            x = run_layers(model, x, layer, layer + 1)
            assert oracles.rounding(found[layer][:, torch.cat(rows)].transpose(0, 1), x.flip(1)) < 2e-6


def test_formats_are_probed_together_and_across(tiny):
    given = {(name, "addition"): census(name) for name in TEMPLATES}
    chosen = probe.choose_prompts(given, 2400, 0)
    table = probe.run(planted(tiny[1], 2), tiny[1], chosen, 0, last_only=True)
    rows = table[table["operator"] == "all"].set_index(["trained", "tested", "layer"])["accuracy"]
    both = "symbolic+code"
    assert set(table["trained"]) == set(table["tested"]) == {*TEMPLATES, both}
    assert (table["position"] == 0).all()
    assert table.groupby("trained")["train_prompts"].nunique().max() == 1
    # Even attention over more tokens gives a smaller sum, so each format scales the direction differently.
    for name in TEMPLATES:
        assert rows[name, name, 2] > 0.9
    assert rows["symbolic", "code", 2] < 0.2
    assert rows[both, both, 1] < 0.15


@pytest.mark.parametrize(("lengths", "skip", "positions"), [((5,), 1, 3), ((5, 4), 0, 3), ((5, 3), 1, 2)])
def test_positions_are_probed_from_where_prompts_begin_to_differ(lengths, skip, positions):
    """The first two tokens of the prompts are the same; a short prompt has only its own positions."""
    groups = [(torch.arange(2), torch.arange(2 * n).view(2, n)) for n in lengths]
    for _, tokens in groups:
        tokens[:, :2] = 7
    assert probe._positions(groups, skip) == positions
