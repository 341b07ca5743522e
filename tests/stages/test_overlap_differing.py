import itertools
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from form_invariance.experiment.membership import Effects
from form_invariance.randomness import generator
from form_invariance.stages.overlap import jaccard
from form_invariance.stages.overlap.differing import differing_table

LAYERS, WIDTH, PROMPTS, K = (2, 3), 200, 24, 10
FORMATS = ("symbolic", "code", "word")
THREE = ("sum", "difference", "product")
REPEATS = 3


def cell(parts, noise, seed):
    """Effects of a cell whose neurons, by part (name, number of neurons), have large effects in every layer."""
    rng = np.random.default_rng(seed)
    effects = {}
    for layer in LAYERS:
        means = np.zeros(WIDTH)
        for name, size in parts:
            means[np.random.default_rng([layer, *name.encode()]).choice(WIDTH, size, replace=False)] = 1
        effects[layer] = (means + noise * rng.normal(size=(1, PROMPTS, WIDTH))).astype(np.float32)
    return Effects(effects, dict.fromkeys(LAYERS, np.arange(WIDTH)), WIDTH)


def grid(parts_of, noise, operators=("sum", "difference")):
    names = itertools.product(FORMATS, operators)
    return {name: cell(parts_of(*name), noise, place) for place, name in enumerate(names)}


def test_no_shared_neuron_is_no_certainty():
    """No resample differs; two sets of 20 neurons may share 3.7 of the 40 in their union (rule of three)."""
    cells = {}
    for place, name in enumerate(itertools.product(FORMATS, ("sum", "difference"))):
        own = np.zeros((1, PROMPTS, WIDTH), dtype=np.float32)
        own[..., K * (place // 2) :][..., :K] = 1
        cells[name] = Effects(dict.fromkeys(LAYERS, own), dict.fromkeys(LAYERS, np.arange(WIDTH)), WIDTH)
    table = differing_table(cells, [K], 20, 0)
    limits = table[table["operators"] == "all"].set_index(["quantity", "differs"])[["low", "value", "high"]]
    unseen = -np.log(0.025)
    expected = {("overlap", name): (1, unseen / 20) for name in ("nothing", "operator")}
    expected |= {("overlap", name): (0, unseen / 40) for name in ("format", "both")}
    expected |= {(name, ""): (0, unseen / 40 * 2**0.5) for name in ("operators_own", "invariance")}
    for key, (value, half) in expected.items():
        assert limits.loc[key].tolist() == pytest.approx([value - half, value, value + half]), key


def top(means, k):
    """The places of the k largest values above 0."""
    return {place for place in np.argsort(-means)[:k] if means[place] > 0}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_shuffled_ceiling_equals_all_permutations(k):
    layers = {2: [[3, 2, 1, -1, 0], [1, -2, -3, -4, 5]], 3: [[-1, -2, 7, 8], [1, 2, 3, 4]]}
    counts = np.zeros(2)
    for first, second in layers.values():
        sizes = []
        for both in itertools.product(itertools.permutations(first), itertools.permutations(second)):
            a, b = (top(np.array(own), k) for own in both)
            sizes.append((len(a & b), len(a | b)))
        counts += np.mean(sizes, axis=0)
    effects = {layer: np.array([own], dtype=np.float32) for layer, own in layers.items()}
    candidates = {layer: np.arange(9 - own.shape[-1], 9) for layer, own in effects.items()}
    found = jaccard.between_shuffled_halves(Effects(effects, candidates, 9), np.eye(2)[None], [k])
    assert found.tolist() == [[pytest.approx(counts[0] / counts[1])]]


def test_halves_of_unequal_sizes_equal_plain_sets():
    """A cell's two prompts are its halves; few effects are positive, so sets may have fewer than k neurons."""
    effects, ks = np.random.default_rng(0).normal(size=(3, 1, 2, 6)), [1, 2, 3, 4]
    cells = {str(place): Effects({2: own}, {2: np.arange(6)}, 6) for place, own in enumerate(effects)}
    found = jaccard.between_halves(cells, dict.fromkeys(cells, np.eye(2)[None]), ks)[:, 0]
    for k, values in zip(ks, found, strict=True):
        tops = [[top(half, k) for half in own[0]] for own in effects]
        expected = [[len(one[0] & two[1]) / len(one[0] | two[1]) for two in tops] for one in tops]
        np.testing.assert_allclose(values, expected)
    assert {len(half) for both in tops for half in both} > {k}


@pytest.mark.parametrize(("candidates", "given"), [(WIDTH, True), (2 * K, False)])
def test_where_the_ceiling_is_chance_no_invariance_is_given(candidates, given):
    """The halves overlap in both cases: planted effects among many candidates, and noise among few."""
    cells = {}
    for name, every in grid(lambda form, operator: [(operator, K)] if given else [], noise=0.05).items():
        own = {layer: effects[..., :candidates] for layer, effects in every.effects.items()}
        cells[name] = Effects(own, dict.fromkeys(LAYERS, np.arange(candidates)), WIDTH)
    table = differing_table(cells, [K], 50, 0)
    assert table.query("quantity == 'shuffled'")["operators"].tolist() == ["all", "sum", "difference"]
    found = table.query("operators == 'all'").set_index(["quantity", "differs"])
    assert found.loc[("overlap", "nothing"), "value"] > 0.2
    assert (found.loc[("shuffled", "nothing"), "value"] < 0.1) == given
    assert found.loc[("invariance", ""), ["value", "low", "high"]].notna().tolist() == [given] * 3
    # Rows that are not divided by the ceiling remain.
    assert table.query("quantity == 'operators_own'")["value"].notna().all()


def plain_overlaps(cells, k):
    """For any two cells and each repeat: the overlap of their top k by half of the prompts, pooled over layers."""
    halves = {name: jaccard.halves(PROMPTS, generator(7, "halves", "False", "/".join(name))) for name in cells}
    for weights in halves.values():
        assert ((weights > 0).sum(1) == 1).all()
        assert ((weights > 0).sum(-1) == PROMPTS // 2).all()

    def by_half(name, repeat, half, layer):
        return top(halves[name][repeat, half] @ cells[name].effects[layer][0].astype(float), k)

    for one, other in itertools.product(cells, cells):
        for repeat in range(REPEATS):
            sets = [(by_half(one, repeat, 0, at), by_half(other, repeat, 1, at)) for at in LAYERS]
            yield one, other, sum(len(a & b) for a, b in sets) / sum(len(a | b) for a, b in sets)


def test_the_values_equal_plain_sets(monkeypatch):
    """A variant is compared only with the cell of its format and operator."""
    monkeypatch.setattr(jaccard, "SPLITS", REPEATS)
    cells = grid(lambda form, operator: [(operator, 6), (form, 6)], noise=1.0)
    others = ("symbolic~1", "sum"), ("symbolic~2", "sum"), ("word~1", "difference")
    variants = {}
    for place, (form, operator) in enumerate(others):
        variants[form, operator] = cell([(operator, 6), (form.split("~")[0], 6)], 1.0, 50 + place)
    whole = differing_table(cells, [4, K], 20, 7, variants)
    table = whole[whole["differs"] != "wording"].reset_index(drop=True)
    pd.testing.assert_frame_equal(table, differing_table(cells, [4, K], 20, 7))
    names = {(0, 0): "nothing", (1, 0): "format", (0, 1): "operator", (1, 1): "both"}
    for k in (4, K):
        values = defaultdict(list)
        for one, other, value in plain_overlaps({**cells, **variants}, k):
            if one in cells and other in cells:
                values[names[one[0] != other[0], one[1] != other[1]], "all"].append(value)
            elif one != other and (one[0].split("~")[0], one[1]) == (other[0].split("~")[0], other[1]):
                values["wording", "all"].append(value)
                values["wording", one[1]].append(value)
        rows = whole[(whole["k"] == k) & (whole["quantity"] == "overlap")].set_index(["differs", "operators"])
        for key, found in values.items():
            assert rows.loc[key, "value"] == pytest.approx(np.mean(found)), key
            assert rows.loc[key, "pairs"] == len(found) / REPEATS
        wording = rows.loc["wording"]
        assert ((wording["low"] < wording["value"]) & (wording["value"] < wording["high"])).all()
        by = rows["value"].xs("all", level="operators")
        wanted = (by["format"] - by["both"]) / (by["nothing"] - by["both"])
        (found,) = table.query("k == @k and quantity == 'invariance' and operators == 'all'")["value"]
        assert found == pytest.approx(wanted)


def test_each_operator_is_compared_with_the_others():
    """The sum has ten neurons of its own in every format; the other operators have those of the format."""
    cells = grid(lambda form, operator: [(operator if operator == "sum" else form, K)], 0.05, THREE)
    table = differing_table(cells, [K], 50, 0).set_index(["quantity", "differs", "operators"])
    for operator in THREE:
        own = table.loc[("overlap", "format", operator)]
        names = ["+".join(pair) for pair in itertools.combinations(THREE, 2) if operator in pair]
        pairs = [table.loc[("overlap", "both", name)] for name in names]
        mean = table.loc[("overlap", "both", operator)]
        assert (own["pairs"], mean["pairs"]) == (6, 24)
        assert mean["value"] == pytest.approx(np.mean([pair["value"] for pair in pairs]))
        beyond = table.loc[("operators_own", "", operator)]
        assert beyond["value"] == pytest.approx(own["value"] - mean["value"])
        invariance = table.loc[("invariance", "", operator)]["value"]
        room = table.loc[("overlap", "nothing", operator)]["value"] - mean["value"]
        assert invariance == pytest.approx(beyond["value"] / room)
        assert invariance == pytest.approx(float(operator == "sum"), abs=0.05)
        assert (beyond["low"] > 0.5) == (operator == "sum")
