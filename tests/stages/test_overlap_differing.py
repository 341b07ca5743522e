"""Overlap by what differs between two cells, against plain sets and planted circuits."""

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from form_invariance.experiment.membership import Effects, Membership
from form_invariance.randomness import generator
from form_invariance.stages.overlap import jaccard
from form_invariance.stages.overlap.differing import differing_table

LAYERS, WIDTH, PROMPTS, K = (2, 3), 200, 24, 10
FORMATS = ("symbolic", "code", "word")


def cell(parts, noise, seed):
    """Effects of a cell whose neurons, by part (name, number of neurons), have large effects in every layer."""
    rng = np.random.default_rng(seed)
    effects = {}
    for layer in LAYERS:
        means = np.zeros(WIDTH)
        for name, size in parts:
            own = np.random.default_rng([layer, *name.encode()]).choice(WIDTH, size, replace=False)
            means[own] = 1
        effects[layer] = (means + noise * rng.normal(size=(1, PROMPTS, WIDTH))).astype(np.float32)
    return Effects(effects, {layer: np.arange(WIDTH) for layer in LAYERS}, WIDTH, "", Membership())


def grid(parts_of, noise=0.0):
    names = itertools.product(FORMATS, ("sum", "difference"))
    return {
        (form, operator): cell(parts_of(form, operator), noise, place)
        for place, (form, operator) in enumerate(names)
    }


def overall(table):
    own = table[(table["operators"] == "all") & (table["k"] == K)]
    found = own[own["quantity"] == "overlap"].set_index("differs")["value"]
    return found, own[own["quantity"] == "invariance"].iloc[0]


def test_no_shared_neuron_is_no_certainty():
    """No resample differs; two sets of 20 neurons may share 3.7 of the 40 in their union (rule of three)."""
    cells = {}
    for place, (name, operator) in enumerate(itertools.product(FORMATS, ("sum", "difference"))):
        own = np.zeros((1, PROMPTS, WIDTH), dtype=np.float32)
        own[..., K * (place // 2) :][..., :K] = 1
        candidates = dict.fromkeys(LAYERS, np.arange(WIDTH))
        cells[name, operator] = Effects(dict.fromkeys(LAYERS, own), candidates, WIDTH, "", Membership())
    table = differing_table(cells, [K], 20, 0)
    limits = table[table["operators"] == "all"].set_index(["quantity", "differs"])[["low", "value", "high"]]
    unseen = -np.log(0.025)
    expected = {("overlap", name): (1, unseen / 20) for name in ("nothing", "operator")}
    expected |= {("overlap", name): (0, unseen / 40) for name in ("format", "both")}
    expected |= {(name, ""): (0, unseen / 40 * 2**0.5) for name in ("operators_own", "invariance")}
    for key, (value, half) in expected.items():
        assert limits.loc[key].tolist() == pytest.approx([value - half, value, value + half]), key


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_shuffled_ceiling_equals_all_permutations(k):
    layers = {2: [[3, 2, 1, -1, 0], [1, -2, -3, -4, 5]], 3: [[-1, -2, 7, 8], [1, 2, 3, 4]]}
    counts = np.zeros(2)
    for first, second in layers.values():
        sizes = []
        for one, other in itertools.product(itertools.permutations(first), itertools.permutations(second)):
            a, b = (
                {place for place in sorted(range(len(own)), key=lambda place: -own[place])[:k] if own[place] > 0}
                for own in (one, other)
            )
            sizes.append((len(a & b), len(a | b)))
        counts += np.mean(sizes, axis=0)
    effects = {layer: np.array([own], dtype=np.float32) for layer, own in layers.items()}
    candidates = {layer: np.arange(9 - own.shape[-1], 9) for layer, own in effects.items()}
    one = Effects(effects, candidates, 9, "", Membership())
    found = jaccard.between_shuffled_halves(one, np.eye(2)[None], [k])
    assert found.tolist() == [[pytest.approx(counts[0] / counts[1])]]


def test_halves_of_unequal_sizes_equal_plain_sets():
    """Each cell has two prompts, which are its halves, and few positive effects, so that sets fall short of k."""
    rng, ks = np.random.default_rng(0), [1, 2, 3, 4]
    effects = {name: rng.normal(size=(1, 2, 6)) for name in ("one", "two", "three")}
    cells = {name: Effects({2: own}, {2: np.arange(6)}, 6, name, Membership()) for name, own in effects.items()}
    found = jaccard.between_halves(cells, dict.fromkeys(cells, np.eye(2)[None]), ks)[:, 0]
    for k, values in zip(ks, found, strict=True):
        tops = [
            [{place for place in np.argsort(-half)[:k] if half[place] > 0} for half in own[0]]
            for own in effects.values()
        ]
        expected = [[len(one[0] & two[1]) / len(one[0] | two[1]) for two in tops] for one in tops]
        np.testing.assert_allclose(values, expected)
    assert {len(half) for both in tops for half in both} > {k}


@pytest.mark.parametrize(("candidates", "given"), [(WIDTH, True), (2 * K, False)])
def test_where_the_ceiling_is_chance_no_invariance_is_given(candidates, given):
    """Effects of noise, and planted ones among many candidates: the halves of both overlap."""
    cells = {}
    for name, every in grid(lambda form, operator: [(operator, K)] if given else [], noise=0.05).items():
        own = {layer: effects[..., :candidates] for layer, effects in every.effects.items()}
        cells[name] = replace(every, effects=own, candidates=dict.fromkeys(LAYERS, np.arange(candidates)))
    table = differing_table(cells, [K], 50, 0)
    found, row = overall(table)
    shuffled = table.query("quantity == 'shuffled'").set_index("operators")["value"]
    assert list(shuffled.index) == ["all", "sum", "difference"]
    assert found["nothing"] > 0.2
    assert (shuffled["all"] < 0.1) == given
    assert row[["value", "low", "high"]].notna().tolist() == [given] * 3
    # The rows that are no share of the ceiling remain.
    assert table.query("quantity == 'operators_own'")["value"].notna().all()


REPEATS = 3


def plain_overlaps(cells, k):
    """For any two cells and each repeat: the overlap of their top k by half of the prompts, pooled over layers."""
    halves = {name: jaccard.halves(PROMPTS, generator(7, "halves", "False", "/".join(name))) for name in cells}
    for name, weights in halves.items():
        used = weights > 0
        assert (used.sum(1) == 1).all(), name
        assert (used.sum(-1) == PROMPTS // 2).all(), name
        np.testing.assert_allclose(weights.sum(-1), 1)

    def top(name, repeat, half, layer):
        means = halves[name][repeat, half] @ cells[name].effects[layer][0].astype(float)
        return {neuron for neuron in np.argsort(-means)[:k] if means[neuron] > 0}

    for one, other in itertools.product(cells, cells):
        for repeat in range(REPEATS):
            sets = [(top(one, repeat, 0, at), top(other, repeat, 1, at)) for at in LAYERS]
            yield one, other, sum(len(a & b) for a, b in sets) / sum(len(a | b) for a, b in sets)


def test_the_values_equal_plain_sets(monkeypatch):
    """Of cells and of their variants, which are compared with the cell of their format and operator alone."""
    monkeypatch.setattr(jaccard, "HALVES", REPEATS)
    cells = grid(lambda form, operator: [(operator, 6), (form, 6)], noise=1.0)
    parts = {
        (f"{form}~{number}", operator): [(operator, 6), (form, 6)]
        for form, number, operator in (("symbolic", 1, "sum"), ("symbolic", 2, "sum"), ("word", 1, "difference"))
    }
    variants = {name: cell(own, 1.0, 50 + place) for place, (name, own) in enumerate(parts.items())}
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


THREE = ("sum", "difference", "product")


def test_each_operator_is_compared_with_the_others():
    """Of the sum's ten neurons all are its own in every format; the other operators' are those of the format."""
    cells = {}
    for place, (form, operator) in enumerate(itertools.product(FORMATS, THREE)):
        cells[form, operator] = cell([(operator if operator == "sum" else form, K)], 0.05, place)
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
