"""Patching of attention heads against TransformerLens's hooks over whole sequences; their overlap by sets."""

from itertools import combinations, product

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from problem_frames import complete_problems
from settings import complete

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.model.readouts import Readouts
from form_invariance.model.replay import build_cache
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.stages.heads import compute as heads
from form_invariance.stages.heads.overlap import head_overlap_table
from form_invariance.stages.heads.overlap_table import HEAD_OVERLAP
from form_invariance.stages.heads.table import HEADS
from form_invariance.stages.membership import Membership
from form_invariance.tables.files import read_table, read_tensors, write_table

PROMPTS = {"symbolic": "{a}+{b}=", "code": "a = {a}\nb = {b}\nprint(a + b)  # "}
LONGER = "Jack has {a} apples. His friend gives him {b} more apples. How many apples does Jack have now? Answer: "
PAIRS = [(226, 68), (17, 433), (99, 6), (505, 250)]
PARTNERS = [(17, 433), (505, 250), (226, 68), (99, 6)]


def texts(template, pairs):
    return [template.replace("{a}", str(a)).replace("{b}", str(b)) for a, b in pairs]


def train_prompts(tokenizer, template, partner_templates):
    partners = [texts(one, [pair])[0] for one, pair in zip(partner_templates, PARTNERS, strict=True)]
    sums = [[a + b for a, b in pairs] for pairs in (PAIRS, PARTNERS)]
    answers = np.stack([tokenizer.number_tokens(row) for row in sums], axis=1)
    operands = np.stack([tokenizer.number_tokens(column) for column in np.transpose(PAIRS)], axis=1)
    tokens = tokenizer.encode_batch(texts(template, PAIRS))
    return TrainPrompts(
        torch.from_numpy(tokens), [partners], torch.from_numpy(answers)[None], torch.from_numpy(operands)
    )


def hooked(bridge, tokens, name):
    """An attention hook of every layer, (L, ...)."""
    found = []

    def keep(activation, hook):
        found.append(activation.detach().clone())
        return activation

    oracles.last_logits(bridge, tokens, [(f"blocks.{at}.attn.{name}", keep) for at in range(bridge.cfg.n_layers)])
    return torch.stack(found)


def expected_effects(bridge, tokenizer, train):
    """Indirect effects by full hooked forward passes, one for each head, (P, L, H)."""
    given = [
        hooked(bridge, torch.from_numpy(tokenizer.encode_batch([text])), "hook_z")[:, 0, -1]
        for text in train.partners[0]
    ]
    given = torch.stack(given, dim=1)  # (L, P, H, D)
    clean = oracles.last_logits(bridge, train.tokens)
    effects = np.empty((len(train.tokens), *given.shape[::2]))
    for layer, head in np.ndindex(effects.shape[1:]):

        def change(z, hook, layer=layer, head=head):
            z = z.clone()
            z[:, -1, head] = given[layer, :, head]
            return z

        patched = oracles.last_logits(bridge, train.tokens, [(f"blocks.{layer}.attn.hook_z", change)])
        effects[:, layer, head] = oracles.indirect_effect(clean, patched, train.answers[0])
    return effects


def compare(model, tokenizer, folder, train):
    bridge, patches = oracles.bridge(folder), []
    cell = heads.measure_cell(model, tokenizer, train, patches.append, Readouts())
    expected = expected_effects(bridge, tokenizer, train)
    assert sum(patches) == expected.size
    # IE is unbounded: beyond 1 the comparison is relative, as fp32 is.
    difference = np.abs(cell.effects.numpy() - expected)
    assert (difference < 2e-5 * np.maximum(1, np.abs(expected))).all(), difference.max()
    assert np.abs(expected).max() > 1e-2, "the patches did nothing"
    pattern = hooked(bridge, train.tokens, "hook_pattern")[:, :, :, -1].mean(1)  # (L, H, T)
    for name, number in (("a", 0), ("b", 1)):
        place = (train.tokens[0] == train.operands[0, number]).nonzero()[0, 0]
        torch.testing.assert_close(cell.attention[name], pattern[..., place], atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(cell.attention["bos"], pattern[..., 0], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", PROMPTS)
def test_random_model_equals_full_hooked_forward(tiny, tiny_folder, name):
    model, tokenizer = tiny
    compare(model, tokenizer, tiny_folder, train_prompts(tokenizer, PROMPTS[name], [PROMPTS[name]] * 4))


@pytest.mark.parametrize("which", ["embedded-shared", "embedded-separate"])
def test_packaged_models_equal_full_hooked_forward_whatever_the_partners_lengths(packaged, which):
    model, tokenizer, folder = packaged[which]
    template = PROMPTS["code"]
    compare(model, tokenizer, folder, train_prompts(tokenizer, template, [template, LONGER, template, "{a}+{b}="]))


def test_heads_patched_with_their_own_output_do_nothing(tiny):
    model, tokenizer = tiny
    train = train_prompts(tokenizer, PROMPTS["code"], [PROMPTS["code"]] * 4)
    own = heads.last_token_heads(model, train.tokens)
    effects = heads.patch_heads(model, build_cache(model, train.tokens, 0), own, train.answers[0], Readouts())
    assert effects.abs().max() < 2e-6


def test_batches_change_nothing(tiny, monkeypatch):
    model, tokenizer = tiny
    train = train_prompts(tokenizer, PROMPTS["code"], [PROMPTS["code"], LONGER] * 2)
    base = heads.measure_cell(model, tokenizer, train, lambda _: None, Readouts())
    monkeypatch.setattr(heads, "rows_at_once", lambda model: 1)
    again = heads.measure_cell(model, tokenizer, train, lambda _: None, Readouts())
    torch.testing.assert_close(again.effects, base.effects, atol=2e-6, rtol=1e-5)
    for name in heads.ATTENDED:
        torch.testing.assert_close(again.attention[name], base.attention[name], atol=1e-6, rtol=1e-5)


def test_operands_in_either_order_and_prompts_without_bos(tiny):
    _, tokenizer = tiny
    train = train_prompts(tokenizer, "{b}+{a}=", ["{b}+{a}="] * 4)
    assert heads.attended_positions(train, tokenizer.bos) == {"a": 3, "b": 1, "bos": 0}
    assert heads.attended_positions(train, None)["bos"] is None
    train.operands = train.operands.roll(1, 0)
    with pytest.raises(UserError, match="operand a is not at the same position"):
        heads.attended_positions(train, tokenizer.bos)


def test_ranks_are_over_all_layers():
    effects = torch.tensor([[[0.0, 3.0], [5.0, 0.0]], [[0.0, 5.0], [1.0, -2.0]]])  # (2 prompts, 2 layers, 2 heads)
    attention = {name: torch.arange(4.0).view(2, 2) for name in heads.ATTENDED}
    table = heads.heads_table(heads.CellHeads(effects, attention))
    assert table[["layer", "head"]].to_numpy().tolist() == [[0, 1], [1, 0], [0, 0], [1, 1]]
    assert table["rank"].tolist() == [1, 2, 3, 4]
    assert table["ie_mean"].tolist() == [4, 3, 0, -1]
    assert table["attention_b"].tolist() == [1, 2, 0, 3]
    np.testing.assert_allclose(table["ie_std"], np.array([2, 4, 0, 2]) / 2**0.5)


def random_effects(seed, shared, prompts=11, layers=3, per_layer=2):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(prompts, layers, per_layer)) + shared).astype(np.float32)


def best(effects, h):
    """The h best heads of effects (P, L, H), as a set of (layer, head)."""
    mean = effects.astype(float).mean(0)
    return set(sorted(np.ndindex(mean.shape), key=lambda at: (-mean[at], at))[:h])


def mean_jaccard(sets):
    values = [len(frozenset.intersection(*some)) / len(frozenset.union(*some)) for some in sets]
    return float(np.mean(values))


def test_overlap_equals_sets_and_chance_equals_enumeration():
    shared = np.random.default_rng(7).normal(size=(3, 2))
    cells = {name: random_effects(seed, shared) for seed, name in enumerate(("s", "c", "w"))}
    table = head_overlap_table(cells, [1, 2, 4, 6], first_late=2, resamples=40, membership=Membership("top_k", 0))
    assert set(table["formats"]) == {"s+c+w", "s+c", "s+w", "c+w"}
    routing = table[table["layers"] == "routing"]
    assert sorted(routing["h"].unique()) == [1, 2, 4]
    for row in table.itertuples():
        layers = {"all": 3, "routing": 2}[row.layers]
        assert row.ranked == 2 * layers
        tops = [best(cells[name][:, :layers], row.h) for name in row.formats.split("+")]
        assert (row.intersection, row.union) == (len(set.intersection(*tops)), len(set.union(*tops)))
        assert row.jaccard == row.intersection / row.union
        assert row.low <= row.jaccard <= row.high
        every = [frozenset(some) for some in combinations(range(row.ranked), row.h)]
        chance = mean_jaccard(product(every, repeat=len(tops)))
        assert row.chance == pytest.approx(chance, abs=1e-12)
    assert table.query("h == 6")["jaccard"].eq(1).all()


def test_ceiling_of_planted_and_of_random_heads():
    planted = np.zeros((3, 2))
    planted[0, 1] = planted[2, 0] = 50
    cells = {
        "planted": random_effects(0, planted),
        "again": random_effects(1, planted),
        "noise": random_effects(2, 0),
    }
    table = (
        head_overlap_table(cells, [2], 1, 20, Membership("top_k", 0)).query("layers == 'all'").set_index("formats")
    )
    assert table.loc["planted+again", ["jaccard", "ceiling"]].tolist() == [1, 1]
    assert table.loc["planted+noise", "ceiling"] < 1
    # Where the layers below the late ones are none, there is nothing to rank.
    assert set(head_overlap_table(cells, [2], 0, 20, Membership("top_k", 0))["layers"]) == {"all"}
    with pytest.raises(UserError, match="heads: 7 is larger than the 6 attention heads"):
        head_overlap_table(cells, [2, 7], 1, 20, Membership("top_k", 0))


def problems(template, pairs, tokenizer):
    frame = pd.DataFrame(pairs, columns=["a", "b"])
    frame["answer"] = frame["a"] + frame["b"]
    return complete_problems(frame.assign(prompt=texts(template, pairs), index=range(len(pairs))), tokenizer)


def test_commands(packaged, tmp_path):
    _, tokenizer, folder = packaged["embedded-shared"]
    words = {"--datasets": [], "--corrupt-tables": []}
    for name, template in PROMPTS.items():
        dataset = problems(template, PAIRS, tokenizer).assign(split="train")
        write_table(dataset, tmp_path / f"{name}.dataset", DATASET, {})
        partners = problems(template, PARTNERS, tokenizer).assign(corrupt_seed=0, operator="addition")
        write_table(partners[list(CORRUPT.columns)], tmp_path / f"{name}.corrupt", CORRUPT, {})
        words["--datasets"].append(f"{name}={tmp_path / name}.dataset")
        words["--corrupt-tables"].append(f"{name}={tmp_path / name}.corrupt")
    inputs = [word for option, files in words.items() for word in (option, *files)]
    outputs = [str(tmp_path / f"{name}.parquet") for name in PROMPTS]
    effects, overlap = tmp_path / "effects.safetensors", tmp_path / "overlap.parquet"
    command = ["heads", "--model", str(folder), *inputs, "--effects-output", str(effects), "--output"]
    assert main([*command, outputs[0]]) == 2
    assert main([*command, *outputs]) == 0
    tensors, provenance = read_tensors(effects, "head_effects")
    assert provenance["formats"] == list(PROMPTS)
    for name, path in zip(PROMPTS, outputs, strict=True):
        table = read_table(path, HEADS)
        first = table.iloc[0]
        assert first["ie_mean"] == pytest.approx(tensors[name].mean(0).max(), rel=1e-5)
        assert table[["attention_a", "attention_b", "attention_bos"]].sum(axis=1).le(1 + 1e-6).all()
    sizes = ["--heads", "4", "2", "--bootstrap", "5"]
    assert main(complete(["head-overlap", "--effects", effects, *sizes, "--output", overlap])) == 0
    found = read_table(overlap, HEAD_OVERLAP)
    assert found[["layers", "ranked", "h", "formats"]].to_numpy().tolist() == [
        [layers, ranked, h, "symbolic+code"] for layers, ranked in (("all", 24), ("routing", 12)) for h in (2, 4)
    ]
