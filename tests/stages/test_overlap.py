from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.experiment.membership import Effects, Membership
from form_invariance.randomness import generator
from form_invariance.stages.circuit.compute import circuit_table, halves_table
from form_invariance.stages.overlap.compute import by_both_rules, overlap_table, reliability_table
from form_invariance.stages.overlap.differing import operator_overlap_table
from form_invariance.stages.overlap.table import with_another
from form_invariance.statistics import expected_jaccard, wilson


def test_wilson_by_hand():
    low, high = wilson(np.array([0, 5, 10, 0]), np.array([10, 10, 10, 0]))
    np.testing.assert_allclose(low, [0, 0.2366, 0.7225, np.nan], atol=1e-4)
    np.testing.assert_allclose(high, [0.2775, 0.7634, 1, np.nan], atol=1e-4)


def cell(seed, shared=None, prompts=12, width=40, candidates=None, draws=2):
    rng = np.random.default_rng(seed)
    chosen = np.arange(width) if candidates is None else candidates
    effects = {}
    for layer in (3, 4):
        values = rng.normal(size=(draws, prompts, len(chosen)))
        if shared is not None:
            values += shared[layer][chosen]
        effects[layer] = values.astype(np.float32)
    return Effects(effects, dict.fromkeys((3, 4), chosen), width)


def brute_top(effects, layer, k, rule="positive"):
    means = effects.effects[layer].astype(float).mean((0, 1))
    order = sorted(zip(-means, effects.candidates[layer], strict=True))[:k]
    return {int(neuron) for mean, neuron in order if (mean < 0 if rule == "positive" else mean != 0)}


def test_circuits_by_halves_are_those_of_halves_of_each_formats_prompts():
    cells = {name: replace(cell(seed, prompts=7), name=name) for seed, name in enumerate("sc")}
    halves = {name: whole.halves() for name, whole in cells.items()}
    for name, whole in cells.items():
        parts = np.concatenate([half.effects[3] for half in halves[name]], axis=1)
        assert sorted(parts[0, :, 0]) == sorted(whole.effects[3][0, :, 0])
        assert sorted(half.prompts for half in halves[name]) == [3, 4]
    table = halves_table(cells, [6])
    for half, layer in product((0, 1), (3, 4)):
        shared = set.intersection(*(brute_top(halves[name][half], layer, 6) for name in cells))
        rows = table[(table["half"] == half + 1) & (table["layer"] == layer)]
        assert set(rows["neuron"]) == shared


def test_overlap_equals_sets():
    rng = np.random.default_rng(9)
    shared = {layer: 2 * (rng.random(40) < 0.2) for layer in (3, 4)}
    cells = {name: cell(seed, shared) for seed, name in enumerate(("s", "c", "w"))}
    ks = [3, 8, 40]
    table = overlap_table(cells, ks, resamples=30, seed=0)
    circuit = circuit_table(cells, ks)
    assert set(table["formats"]) == {"s+c+w", "s+c", "s+w", "c+w"}
    by_rule = by_both_rules(cells, ks, resamples=30, seed=0)
    used = by_rule[by_rule["membership"] == "positive"].reset_index(drop=True)
    pd.testing.assert_frame_equal(used[table.columns], table.assign(used=True)[table.columns])
    assert not by_rule.loc[by_rule["membership"] == "top_k", "used"].any()
    for k in ks:
        pooled = [0, 0]
        for layer in (3, 4):
            tops = [brute_top(one, layer, k) for one in cells.values()]
            common, union = set.intersection(*tops), set.union(*tops)
            row = table.query("k == @k and layer == @layer and formats == 's+c+w'").iloc[0]
            assert (row["intersection"], row["union"]) == (len(common), len(union))
            assert set(circuit.query("k == @k and layer == @layer")["neuron"]) == common
            pooled[0] += len(common)
            pooled[1] += len(union)
        row = table.query("k == @k and layer == -1 and formats == 's+c+w'").iloc[0]
        assert row["jaccard"] == pytest.approx(pooled[0] / pooled[1])
        assert row["low"] <= row["jaccard"] <= row["high"]
        sizes = [sum(len(brute_top(one, layer, k)) for layer in (3, 4)) for one in cells.values()]
        assert row["members"] == row["positive"] == min(sizes)


def test_formats_that_share_nothing_have_an_interval():
    def own(name, first):
        effects = np.full((1, 6, 30), 0.1)
        effects[..., first : first + 10] = 1 + np.arange(10)  # on every prompt the same
        return Effects({3: effects}, {3: np.arange(30)}, 30, name)

    cells = {name: own(name, 10 * place) for place, name in enumerate("scw")}
    table = overlap_table(cells, [10], 40, 0)
    pooled = table[(table["layer"] == -1) & (table["formats"] == "s+c+w")].iloc[0]
    assert (pooled["jaccard"], pooled["low"], pooled["union"]) == (0, 0, 30)
    assert pooled["high"] == pytest.approx(-np.log(0.025) / 30)


@pytest.mark.parametrize("rule", ["positive", "top_k"])
def test_dead_neurons_are_never_shared(rule):
    """Of 40 neurons 30 are dead in every format; by their numbers, the first of them would fill up each top 25."""
    effects = dict.fromkeys((3, 4), np.tile(np.arange(40) % 4 == 0, (2, 12, 1)).astype(np.float32))
    members = {
        name: Effects(effects, dict.fromkeys((3, 4), np.arange(40)), 40, name, Membership(rule)) for name in "scw"
    }
    assert set(circuit_table(members, [25])["neuron"]) == set(range(0, 40, 4))
    row = overlap_table(members, [25], 5, 0).query("layer == -1 and formats == 's+c+w'").iloc[0]
    assert (row["members"], row["jaccard"]) == (20, 1)


def test_where_no_set_has_a_member_the_overlap_is_undefined():
    dead = {name: Effects({3: np.zeros((2, 12, 40))}, {3: np.arange(40)}, 40, name) for name in "sc"}
    table = overlap_table(dead, [5], 10, 0)
    assert table[["jaccard", "chance", "low", "high"]].isna().all(axis=None)
    assert table[["members", "union"]].eq(0).all(axis=None)
    assert reliability_table(dead, [5], 0)["jaccard"].isna().all()
    assert circuit_table(dead, [5]).empty


def test_equal_effects_are_ordered_differently_in_each_format():
    """Where all effects are equal, sets of k agree by chance alone; ordered by number they would be the same."""
    equal = {3: np.ones((1, 4, 400), np.float32)}
    cells = {name: Effects(equal, {3: np.arange(400)}, 400, name) for name in "sc"}
    row = overlap_table(cells, [100], 2, 0).iloc[0]
    assert row["jaccard"] == pytest.approx(row["chance"], abs=0.05)


@pytest.mark.parametrize(
    ("sizes", "width"),
    [
        *(((1, 1), 4), ((2, 2), 5), ((2, 2, 2), 5), ((3, 3, 3), 5), ((5, 5, 5), 5), ((1, 1, 1), 3)),
        *(((1, 3), 4), ((0, 2), 4), ((1, 2, 3), 4), ((0, 2, 2), 4), ((4, 4, 1), 4), ((2, 0, 3), 4)),
    ],
)
def test_expected_jaccard_equals_enumeration(sizes, width):
    subsets = [[frozenset(subset) for subset in combinations(range(width), size)] for size in sizes]
    values = [len(frozenset.intersection(*some)) / len(frozenset.union(*some)) for some in product(*subsets)]
    assert expected_jaccard(sizes, width) == pytest.approx(np.mean(values), abs=1e-12)
    assert np.isnan(expected_jaccard([0, 0], 4))


def test_expected_jaccard_of_large_sets_is_near_that_of_their_expected_sizes():
    assert expected_jaccard([500] * 3, 2000) == pytest.approx((1 / 4) ** 3 / (1 - (3 / 4) ** 3), rel=0.01)
    assert expected_jaccard([2000] * 3, 14336) == pytest.approx(0.1395**3 / (1 - 0.8605**3), rel=0.01)


def test_bootstrap_equals_a_plain_resampling():
    cells = {name: cell(seed) for seed, name in enumerate(("s", "c"))}
    table = overlap_table(cells, [5], resamples=40, seed=3)
    draws = {name: generator(3, "bootstrap", name).integers(12, size=(40, 12)) for name in cells}
    values = []
    for sample in range(40):
        common = union = 0
        for layer in (3, 4):
            tops = [
                set(np.argsort(-one.effects[layer].astype(float).mean(0)[draws[name][sample]].mean(0))[:5])
                for name, one in cells.items()
            ]
            common += len(tops[0] & tops[1])
            union += len(tops[0] | tops[1])
        values.append(common / union)
    row = table.query("layer == -1").iloc[0]
    half = 1.959963984540054 * np.std(values, ddof=1)
    np.testing.assert_allclose(row["low"], max(0, row["jaccard"] - half))
    np.testing.assert_allclose(row["high"], row["jaccard"] + half)


def test_formats_with_the_same_true_effects_reach_the_ceiling_of_parts_and_no_others():
    rng = np.random.default_rng(0)

    def noisy(truth):
        return Effects(
            {3: (truth + 4 * rng.normal(size=(1, 90, 200))).astype(np.float32)}, {3: np.arange(200)}, 200
        )

    truth, other = rng.normal(size=(2, 200))
    same = reliability_table({name: noisy(truth) for name in "scw"}, [40], seed=0)
    ceiling = same.query("kind == 'parts'")["jaccard"].mean()
    across = same.query("kind == 'across_parts'")
    assert across["format"].tolist() == ["s+c+w"]
    assert across["jaccard"].item() == pytest.approx(ceiling, abs=0.05)
    # Two rankings by half of the prompts agree better than three by a third, so they are no ceiling of these.
    assert same.query("kind == 'split_half'")["jaccard"].mean() > ceiling + 0.1
    half = reliability_table({"s": noisy(truth), "c": noisy(truth), "w": noisy(other)}, [40], seed=0)
    assert half.query("kind == 'across_parts'")["jaccard"].item() < ceiling - 0.1


def test_candidates_that_are_not_all_neurons_or_of_other_layers():
    one = cell(0, candidates=np.array([4, 9, 30]))
    placed = replace(one, membership=Membership("top_k")).ranks(3)
    assert sorted(np.flatnonzero(placed < 3)) == [4, 9, 30]
    with pytest.raises(UserError, match="larger than the 3 ranked neurons"):
        overlap_table({"s": one, "c": cell(1)}, [4], 1, 0)
    fewer = Effects({3: one.effects[3]}, {3: one.candidates[3]}, one.width)
    with pytest.raises(UserError, match="different layers"):
        circuit_table({"s": one, "c": fewer}, [3])


def test_overlap_of_operators_equals_sets():
    cells = {
        (name, operator): cell(10 * place + n)
        for place, name in enumerate("sw")
        for n, operator in enumerate("abc")
    }
    table = operator_overlap_table(cells, [3, 8], resamples=20, seed=0)
    assert len(table) == 2 * 3 * 2
    for row in table.itertuples():
        one, two = (cells[row.format, operator] for operator in row.operators.split("+"))
        tops = [[brute_top(one, layer, row.k), brute_top(two, layer, row.k)] for layer in (3, 4)]
        common, union = sum(len(a & b) for a, b in tops), sum(len(a | b) for a, b in tops)
        assert (row.intersection, row.union) == (common, union)
        assert row.jaccard == pytest.approx(common / union)
        assert row.chance == pytest.approx(3 / 77 if row.k == 3 else row.chance, abs=0.01)
        assert row.low <= row.jaccard <= row.high
    twice = with_another(table)
    assert twice.groupby("operator").size().to_dict() == dict.fromkeys("abc", 8)
    assert all(own in both.split("+") for own, both in zip(twice["operator"], twice["operators"], strict=True))
