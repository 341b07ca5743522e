"""Exchange of the residual stream: states against hooks, donors by brute force, known layers."""

import re
from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from example_tables import filled
from oracles import at_last_token
from planted_models import TEMPLATES, census_of, divide_attention, model_of, run_of, save
from small_prompts import PAIRS, PROMPTS

from form_invariance.beyond.residual_exchange import arrival, compute, contrasts, heads
from form_invariance.beyond.residual_exchange.answer import answer, of_heads, of_probes
from form_invariance.beyond.residual_exchange.donors import donations, with_copies
from form_invariance.beyond.residual_exchange.table import ARRIVAL_PROBES, FORMAT, HEADS
from form_invariance.tables.files import write_table


def small(folder):
    """A run of a small model, and the prompts of its targets and donors."""
    target = [PROMPTS["word"].format(a=a, b=b) for a, b in PAIRS]
    donor = [PROMPTS["symbolic"].format(a=a, b=b) for a, b in PAIRS[::-1]]
    return run_of(folder, 0), target, donor


def states(bridge, tokens):
    """The last token's state before each layer, after its attention and after its MLP, (layers, B, d) each."""
    _, cache = bridge.run_with_cache(tokens)
    before, written, after = (
        torch.stack([cache[f"blocks.{layer}.{name}"][:, -1] for layer in range(bridge.cfg.n_layers)])
        for name in ("hook_in", "attn.hook_out", "hook_out")
    )
    return before, before + written, after


def exchanged_states(bridge, tokens, donors):
    """Logits with the donors' state after the attention, or after the MLP, of each layer, (2, B, layers, V)."""
    (before, *_), (_, attended, after) = states(bridge, tokens), states(bridge, donors)
    z = [
        oracles.last_logits(bridge, tokens, [(f"blocks.{layer}.{name}", at_last_token(lambda _, x=x: x))])
        for name, given in (("attn.hook_out", attended - before), ("hook_out", after))
        for layer, x in enumerate(given)
    ]
    return torch.stack(z).unflatten(0, (2, -1)).transpose(1, 2)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_exchanges_equal_hooks_over_whole_sequences(family_folders, family):
    folder = family_folders[family]
    run, target, donor = small(folder)
    bridge = oracles.bridge(folder)
    # One prompt at a time, because their lengths differ.
    alone = [[run.tokens([prompt]) for prompt in prompts] for prompts in (target, donor)]
    expected = torch.cat([torch.stack(states(bridge, tokens)[1:], 1) for tokens in alone[0]], 2)
    torch.testing.assert_close(arrival.states(run, target, range(1, 3)), expected[1:3], atol=1e-5, rtol=1e-5)
    attended, z = torch.cat([exchanged_states(bridge, *both) for both in zip(*alone, strict=True)], 1)
    # A state given between a layer's attention and its MLP acts like the state given after the layer.
    torch.testing.assert_close(attended, z, atol=1e-4, rtol=0)
    own, other = (torch.cat([oracles.last_logits(bridge, one).argmax(-1) for one in prompts]) for prompts in alone)
    rows = {"donor": "format", "donor_format": "symbolic", "a": 1, "b": 2}
    given = pd.DataFrame({"prompt": target, "own_token": own, "donor_prompt": donor, "donor_token": other, **rows})
    table = compute.run_exchanges(run, given)
    expected = z.double().softmax(-1)
    for name, tokens in (("donor", other), ("own", own)):
        p = expected.gather(2, tokens[:, None, None].expand(-1, z.shape[1], 1))
        np.testing.assert_allclose(table[f"{name}_probability"], p.flatten(), atol=2e-6)
        assert table[f"{name}_answer"].tolist() == (z.argmax(-1) == tokens[:, None]).flatten().tolist()
    assert expected.max(-1).values.std() > 1e-4
    # After the last layer the state is the donor's output.
    assert table.loc[table.index % z.shape[1] == z.shape[1] - 1, "donor_answer"].all()


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_exchanged_heads_equal_hooks_over_whole_sequences(family_folders, family):
    folder, layer = family_folders[family], 1
    run, target, donor = small(folder)
    count, bridge, place = run.model.config.n_heads, oracles.bridge(folder), f"blocks.{layer}.attn.hook_z"
    assert count > run.model.config.n_key_value_heads
    head_masks = torch.rand(len(target), 3, count, generator=torch.manual_seed(0)) < 0.5
    given = pd.DataFrame({"prompt": target, "own_token": 5, "donor_prompt": donor, "donor_token": 9})
    answers, probabilities = heads.exchanged(run, given, layer, head_masks)
    expected = torch.empty(len(target), 3, run.model.config.vocabulary, dtype=torch.float64)
    for row, (own, other) in enumerate(zip(target, donor, strict=True)):
        _, cache = bridge.run_with_cache(run.tokens([other]), names_filter=[place])
        for number, mask in enumerate(head_masks[row, ..., None]):
            exchange = at_last_token(lambda z: torch.where(mask, cache[place][:, -1], z))
            expected[row, number] = oracles.last_logits(bridge, run.tokens([own]), [(place, exchange)])[0]
    np.testing.assert_allclose(probabilities, expected.softmax(-1)[..., 9], atol=2e-6)
    assert probabilities.std() > 1e-6
    assert answers.tolist() == (expected.argmax(-1) == 9).tolist()


FORMATS = list(TEMPLATES)
PROMPTS_OF_A_CELL = 16


@pytest.fixture(scope="module", params=[1.0, 0.0], ids=["shared", "separate"])
def exchanged(tmp_path_factory, request):
    """The planted model, whose attention of layer 0 brings both operands: its run, donations and tables."""
    return exchanged_in(tmp_path_factory.mktemp("planted"), model_of(request.param, 3))


def exchanged_in(folder, model, count=1):
    save(folder, *model, count)
    run = run_of(folder)
    censuses = {name: census_of(run, template, "addition", None, 3) for name, template in TEMPLATES.items()}
    chosen = {
        name: census[census["correct"]].iloc[place :: len(FORMATS)].sample(PROMPTS_OF_A_CELL, random_state=place)
        for place, (name, census) in enumerate(censuses.items())
    }
    datasets = {
        (name, "addition"): rows.assign(split="eval", index=range(len(rows))) for name, rows in chosen.items()
    }
    given = {name: donations((name, "addition"), datasets, censuses, 0) for name in FORMATS}
    return run, given, {(name, "addition"): compute.run_exchanges(run, some) for name, some in given.items()}


def layers_of(tables):
    """Values by quantity of the table of layers, and the verdicts over all cells."""
    found = contrasts.exchanges(tables, 300, 0)
    verdicts = contrasts.contrasts(found).query("format == operator == 'all'").set_index("question")["verdict"]
    values = contrasts.layers(found).groupby("quantity")["value"].agg(lambda some: set(some.dropna()))
    return values, verdicts.to_dict()


def test_the_layer_is_that_whose_attention_brings_the_operands(exchanged):
    """This holds even if no neuron is shared: the state contains the mark by which neurons know their format."""
    _, given, tables = exchanged
    values, verdicts = layers_of(tables)
    assert values.to_dict() == {"meets": {0}, "leaves": set()}
    assert verdicts == {"meet": "yes", "served": "yes"}
    assert {donor for some in given.values() for donor in some["donor"]} == {"format", "repair"}
    for table in tables.values():
        assert table.loc[table["donor"] == "format", "donor_answer"].all()
        assert table["permuted_answer"].max() < 0.5


IN_ALL, NOWHERE = tuple(FORMATS), ()


@pytest.mark.parametrize(
    ("brings", "sets", "said"),
    [
        ((NOWHERE, IN_ALL, NOWHERE, NOWHERE), [{1}, {1}, {1}], ("1", "1.00")),
        ((FORMATS[:2], NOWHERE, FORMATS[2:], NOWHERE), [{0}, {0}, {2}], ("none", "0.33")),
    ],
    ids=["one head", "another head in one format"],
)
def test_heads_are_those_that_bring_the_operands(tmp_path, brings, sets, said):
    weights, tokenizer = model_of(1.0, 3)
    divide_attention(weights, brings)
    run, given, tables = exchanged_in(tmp_path, (weights, tokenizer), len(brings))
    at = contrasts.arrives(contrasts.exchanges(tables, 0, 0))
    assert at == 0
    table = heads.head_table(run, given, "addition", at, 50, 0)
    assert list(table) == [*HEADS.columns]
    assert set(table["layer"]) == {0}
    after = heads.head_table(run, given, "addition", 1, 50, 0)
    assert not after["donor_answer"].any(), "the next layer's attention brings nothing"
    said_of_none = of_heads(after.assign(operator="sum"))
    assert said_of_none.endswith(": those of layer 1 together 0% (of another format 0%).")

    def members(donor, target):
        pair = table.query("donor_format == @donor and target_format == @target")
        assert (pair["prompts"] == PROMPTS_OF_A_CELL / 2).all()
        # Larger sums are misread by neurons that see the format, which no head brings.
        together = pair.query("exchanged == 'together' and rank == 4")["donor_answer"].item()
        assert together == 1 or donor != target == "word"
        return set(pair.loc[pair["member"], "head"])

    assert [members(name, name) for name in FORMATS] == sets
    # If another head brings the target's own sum, both must be exchanged.
    assert members(FORMATS[0], FORMATS[2]) >= sets[0] | sets[2]
    alone = table.query("donor_format == target_format and exchanged == 'alone'")
    assert (alone["donor_answer"] == alone["member"]).all()
    assert (alone["low"] == alone["donor_answer"]).all()
    never = heads.head_table(run, given, "addition", run.model.config.n_layers, 50, 0)
    write_table(never, tmp_path / "heads.parquet", HEADS, {}, {"model": "m", "operator": "addition"})
    assert of_heads(never.assign(operator="addition")) == ""
    common, jaccard = said
    text = f"1 of 4 do 80% of this ({common} in all formats), Jaccard of two formats' sets {jaccard} (chance 0.25)"
    assert text in of_heads(table.assign(operator="addition"))


def test_heads_are_ordered_by_other_problems_than_those_they_are_measured_on(monkeypatch):
    """Each head decides a random half of the prompts; the best by chance must not look better on others."""
    rng, config = np.random.default_rng(0), SimpleNamespace(n_heads=8, n_layers=1)
    donated = pd.DataFrame({"a": range(20), "b": 0, "donor": FORMAT, "donor_format": "code"})

    def by_chance(run, donations, layer, head_masks):
        outputs = rng.random(head_masks.shape[:2]) < 0.5
        return outputs, outputs.astype(float)

    monkeypatch.setattr(heads, "exchanged", by_chance)
    run = SimpleNamespace(model=SimpleNamespace(config=config))
    table = heads.head_table(run, dict.fromkeys(map(str, range(100)), donated), "sum", 0, 20, 0)
    best = table.query("rank == 1")
    assert (best["prompts"] == 10).all()
    assert best["donor_answer"].mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("expression", "digit", "place", "carry"),
    [("a + b", 1, 1, True), ("a - b", 0, 10, True), ("a * b", -1, 1, False), ("a+b", -1, 1, True)],
)
def test_targets_of_probes_are_digits_and_carries(expression, digit, place, carry):
    some = pd.DataFrame([(a, b) for a in range(40, 99, 7) for b in range(3, 40, 5)], columns=["a", "b"])
    some = some.assign(answer=some.eval(expression), digit=digit)
    some = some[some["answer"].between(10, 99) | (digit == -1)]
    found = {name: values.tolist() for name, values in arrival.targets(some, expression)}
    assert [*found] == [f"answer {place}", "a 1", "a 10", "b 1", "b 10", *["carry 10"] * carry]
    for row, (a, b, result, _) in enumerate(some.itertuples(index=False)):
        assert found[f"answer {place}"][row] == int(str(result)[digit])
        assert [found[name][row] for name in ("a 10", "a 1", "b 10", "b 1")] == [*map(int, f"{a:02}{b:02}")]
        if carry:
            tens = a // 10 + b // 10 if "+" in expression else a // 10 - b // 10
            assert found["carry 10"][row] == abs(result // 10 - tens)


KNOWN = {
    "compute": {"a": 2, "b": 2, "answer": 5},
    "write": {"a": 2, "b": 2, "answer": 2},
    "neither": {"answer": 5},
}
"""The points, two a layer, from which on states contain a digit."""
CONCLUSIONS = {
    "compute": "the answer is readable after the MLP of layer 2, and the MLPs of layers 1 to 2 compute it.",
    "write": "the answer has arrived, and the later MLPs write it.",
    "neither": "the answer is readable after the MLP of layer 2; this does not say whether the MLPs compute it.",
}


@pytest.mark.parametrize("which", KNOWN)
@pytest.mark.parametrize("cut", [False, True])
def test_probes_find_what_states_contain_from_known_points_on(monkeypatch, which, cut):
    """Digits are one-hot vectors; the second format has its operands in other dimensions. The rest is noise."""
    rng, pairs = np.random.default_rng(0), np.random.default_rng(1).integers(10, 50, (200, 2))
    census = pd.DataFrame(pairs, columns=["a", "b"]).drop_duplicates()
    census = census.assign(answer=census["a"] + census["b"], digit=1, answer_token=0, fields="")
    census = census.assign(correct=True, uniform=True)
    prompts = {name: [f"{name} {a} {b}" for a, b in census[["a", "b"]].to_numpy()] for name in "fg"}

    def states(run, prompts, layers):
        x = torch.from_numpy(0.05 * rng.normal(size=(len(layers) * 2, len(prompts), 64))).float()
        for row, (name, a, b) in enumerate(map(str.split, prompts)):
            digits = {"a": a[-1], "b": b[-1], "answer": str(int(a) + int(b))[-1]}
            for place, (what, first) in enumerate(KNOWN[which].items()):
                at = 10 * (place if what == "answer" or name == "f" else place + 3) + int(digits[what])
                x[max(0, first - 2 * layers.start) :, row, at] += 1
        return x.unflatten(0, (-1, 2))

    monkeypatch.setattr(arrival, "states", states)
    monkeypatch.setattr(arrival, "_STATE_BYTES", 1 if cut else 2**31)
    config = SimpleNamespace(n_layers=4, d_model=64)
    run = SimpleNamespace(model=SimpleNamespace(config=config, device=torch.device("cpu")))
    censuses = {(name, "sum"): census.assign(prompt=some) for name, some in prompts.items()}
    table = arrival.probe_table(run, censuses, "a + b", 500, 0)
    assert list(table) == [*ARRIVAL_PROBES.columns]
    targets = 6  # two digits of each operand, the answer's, the carry
    assert len(table) == targets * len(prompts) ** 2 * 2 * config.n_layers
    at = 2 * table["layer"] + (table["point"] == "MLP")
    name, place = table["target"].str.split(expand=True).to_numpy().T
    known = (at >= [KNOWN[which].get(one, 99) for one in name]) & (place == "1")
    same, beyond = table["trained"] == table["tested"], table["accuracy"] - table["chance"]
    assert (table.loc[known & (same | (name == "answer")), "accuracy"] > 0.9).all()
    assert beyond[~known & (name != "carry")].mean() < 0.1
    assert not (beyond[known & ~same & (name != "answer")] > 0.3).any()
    given = {
        "arrival_probes": table.assign(operator="sum"),
        "heads": filled(HEADS, [(1,)], "layer", operator="sum", keys="operator"),
        "residual_shares": pd.DataFrame({"operator": ["sum"]}),
    }
    said = of_probes(given)[1]
    assert said.startswith("sum: after the attention of layer 1 probes read the digits answer 1 ")
    assert said.endswith(CONCLUSIONS[which])


def constructed(meets, prompts=40, layers=7):
    """Tables of two formats whose donors decide the answer from known layers on, by (target, donor)."""
    rng, tables = np.random.default_rng(0), {}
    for target, donor in meets:
        share = np.where(np.arange(layers) < meets[target, donor], 0.1, 1)
        some = pd.DataFrame({"a": np.repeat(range(prompts), layers), "b": -1})
        some = some.assign(donor="format", donor_format=donor)
        outputs = rng.random((prompts, layers)) < share
        some = some.assign(layer=np.tile(np.arange(layers), prompts), donor_answer=outputs.ravel())
        some = some.assign(own_answer=~some["donor_answer"], permuted_answer=0.1)
        tables.setdefault((target, "sum"), []).append(some)
    return {cell: pd.concat(parts) for cell, parts in tables.items()}


@pytest.mark.parametrize(
    ("own", "others", "meet", "served"),
    [
        (2, (2, 2), "yes", "yes"),
        (2, (2, 3), "yes", "no"),  # one layer apart
        (2, (2, 4), "no", "no"),
        (2, (3, 3), "yes", "no"),  # together, but later than the own format's state
        (7, (7, 7), "undefined", "undefined"),
    ],
)
def test_meeting_layers_are_those_of_constructed_measurements(own, others, meet, served):
    meets = {("f", "f"): own, ("f", "g"): others[0], ("g", "g"): own, ("g", "f"): others[1]}
    values, verdicts = layers_of(constructed(meets))
    assert values["meets"] == ({own, *others} if own < 7 else set())
    assert verdicts == {"meet": meet, "served": served}


@pytest.mark.parametrize(("layer", "said"), [(0, "on: sum 0."), (3, "on: sum 3."), (7, "on: none.")])
def test_the_answer_names_the_meeting_layer_of_every_operator(layer, said):
    both = ("f", "g")
    found = contrasts.exchanges(constructed({(one, other): layer for one in both for other in both}), 300, 0)
    tables = {
        "heads": filled(HEADS, [], keys="operator", operator=""),
        "arrival_probes": filled(ARRIVAL_PROBES, [], keys="operator", operator=""),
        "residual_shares": contrasts.shares(found),
        "residual_layers": contrasts.layers(found),
        "residual_contrasts": contrasts.contrasts(found),
    }
    first, _, third = answer(tables, 5)
    assert said in first.sentence
    assert third.sentence == "sum: a table of words has no operands, so nothing is probed."


def test_permuted_donors_never_arrive(exchanged):
    _, _, tables = exchanged
    rng = np.random.default_rng(0)
    others = {
        cell: table.assign(donor_answer=rng.random(len(table)) < table["permuted_answer"])
        for cell, table in tables.items()
    }
    values, verdicts = layers_of(others)
    assert values["meets"] == set()
    assert verdicts == {"meet": "undefined", "served": "undefined"}


def sums(prompts):
    """The operands that prompts of the planted model's templates name."""
    return [tuple(map(int, re.findall(r"\d+", prompt))) for prompt in prompts]


def test_donors_are_right_and_have_another_answer(exchanged):
    run, given, _ = exchanged
    wrong = 0
    for name, some in given.items():
        output = run.tokenizer.number_tokens
        for kind, rows in some.groupby("donor"):
            donors, targets = sums(rows["donor_prompt"]), sums(rows["prompt"])
            assert targets == list(zip(rows["a"], rows["b"], strict=True))
            assert rows["donor_token"].tolist() == output(list(map(sum, donors))).tolist()
            if kind == "format":
                assert set(rows["donor_format"]) == set(FORMATS)
                assert rows["own_token"].tolist() == output(list(map(sum, targets))).tolist()
                assert (rows["own_token"] != rows["donor_token"]).all()
            else:
                wrong += len(rows)
                assert donors == targets
                assert name == "word"
                assert rows["own_token"].tolist() == output([7 + sum(pair) for pair in targets]).tolist()
    assert wrong == 2 * PROMPTS_OF_A_CELL


def test_a_copy_has_the_answer_of_the_own_formats_donor(exchanged):
    _, given, _ = exchanged
    token = int(given["code"].query("donor_format == 'code'")["donor_token"].mode()[0])
    copies = pd.DataFrame({"prompt": ["x", "y"], "answer_token": token})
    copied = with_copies(given["code"], copies, ("code", "addition"), 0).query("donor == 'copied'")
    own = given["code"].query("donor_format == 'code' and donor_token == @token")
    assert set(copied["donor_prompt"]) <= {"x", "y"}
    alike = copied.columns.drop(["donor", "donor_prompt"])
    assert copied[alike].to_numpy().tolist() == own[alike].to_numpy().tolist()
