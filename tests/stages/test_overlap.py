from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from example_tables import filled

from form_invariance.errors import UserError
from form_invariance.experiment.membership import Effects, Membership
from form_invariance.randomness import generator
from form_invariance.stages.circuit.compute import circuit_members, circuit_table, halves_table
from form_invariance.stages.overlap.answer import answer
from form_invariance.stages.overlap.chance import DRAWS, expected_jaccard, one_region, random_jaccards, regions_of
from form_invariance.stages.overlap.compute import by_both_rules, overlap_table, reliability_table
from form_invariance.stages.overlap.differing import operator_overlap_table
from form_invariance.stages.overlap.table import BEST, FORMAT_CORRELATION, OVERLAP, beyond_chance, with_another
from form_invariance.tables.columns import ALL

EVERY = np.arange(40)


def cell(seed, shared=0.0, prompts=12, candidates=EVERY):
    rng = np.random.default_rng(seed)
    shape = 2, prompts, len(candidates)
    effects = {layer: (shared + rng.normal(size=shape)).astype(np.float32) for layer in (3, 4)}
    changes = {layer: 0.3 * rng.normal(size=len(candidates)) - own.mean((0, 1)) for layer, own in effects.items()}
    return Effects(effects, dict.fromkeys((3, 4), candidates), 40, probability_change=changes)


def of_all(name, *values, rule="positive"):
    """Effects (draws, prompts, neurons) of layer 3, and of layer 4, where every neuron is a candidate."""
    effects, width = dict(enumerate(values, 3)), values[0].shape[-1]
    changes = {layer: -own.mean((0, 1)) for layer, own in effects.items()}
    return Effects(effects, dict.fromkeys(effects, np.arange(width)), width, name, Membership(rule), changes)


def plain_top(effects, prompts, layer, k):
    means = effects.effects[layer].astype(float)[:, prompts].mean((0, 1))
    order = sorted(zip(-means, effects.candidates[layer], strict=True))[:k]
    return {int(neuron) for mean, neuron in order if mean < 0}


def plain_counts(cells, k, prompts=(slice(None),) * 3):
    """In each layer: how many neurons are in the top k of all cells, and of any."""
    tops = [[plain_top(*one, layer, k) for one in zip(cells, prompts, strict=False)] for layer in (3, 4)]
    return np.array([(len(set.intersection(*some)), len(set.union(*some))) for some in tops])


def test_circuits_by_halves_are_those_of_halves_of_each_formats_prompts():
    cells = {name: replace(cell(seed, prompts=7), name=name) for seed, name in enumerate("sc")}
    halves = {name: whole.halves() for name, whole in cells.items()}
    for name, whole in cells.items():
        parts = np.concatenate([half.effects[3] for half in halves[name]], axis=1)
        assert sorted(parts[0, :, 0]) == sorted(whole.effects[3][0, :, 0])
        assert sorted(half.prompts for half in halves[name]) == [3, 4]
    table = halves_table(cells, [6])
    for half, layer in product((0, 1), (3, 4)):
        shared = set.intersection(*(plain_top(halves[name][half], slice(None), layer, 6) for name in cells))
        rows = table[(table["half"] == half + 1) & (table["layer"] == layer)]
        assert set(rows["neuron"]) == shared


def test_overlap_and_its_bootstrap_equal_sets():
    cells = {name: cell(seed, 0.4 * (np.arange(40) % 5 == 0)) for seed, name in enumerate("scw")}
    ks = [3, 8, 40]
    table = overlap_table(cells, ks, resamples=30, seed=3)
    by_rule = by_both_rules(cells, ks, resamples=30, seed=3)
    used = by_rule[by_rule["membership"] == "positive"].reset_index(drop=True)
    pd.testing.assert_frame_equal(used[table.columns], table.assign(used=True)[table.columns])
    assert not by_rule.loc[by_rule["membership"] == "top_k", "used"].any()
    circuit = circuit_table(cells, ks)
    draws = {name: generator(3, "bootstrap", name).integers(12, size=(30, 12)) for name in cells}
    for k, names in product(ks, (*combinations("scw", 2), tuple("scw"))):
        own = [cells[name] for name in names]
        rows = table[(table["k"] == k) & (table["formats"] == "+".join(names))].set_index("layer")
        counts = plain_counts(own, k)
        assert rows.loc[[3, 4], ["intersection", "union"]].to_numpy().tolist() == counts.tolist()
        samples = zip(*(draws[name] for name in names), strict=True)
        resampled = [plain_counts(own, k, sample).sum(0) for sample in samples]
        half = 1.959963984540054 * np.std([common / union for common, union in resampled], ddof=1)
        common, union = counts.sum(0)
        limits = max(0, common / union - half), common / union, common / union + half
        assert rows.loc[-1, ["low", "jaccard", "high"]].tolist() == pytest.approx(limits)
        sizes = np.array([plain_counts([one], k)[:, 0] for one in own])
        assert rows.loc[-1, "members"] == rows.loc[-1, "positive"] == sizes.sum(1).min()
        chance = np.average(rows.loc[[3, 4], "chance"], weights=sizes.sum(0))
        assert rows.loc[-1, "chance"] == pytest.approx(chance)
    for k, layer in product(ks, (3, 4)):
        common = set.intersection(*(plain_top(one, slice(None), layer, k) for one in cells.values()))
        assert set(circuit.query("k == @k and layer == @layer")["neuron"]) == common


def test_circuits_by_either_draw_of_partners_equal_sets():
    cells = {name: cell(seed) for seed, name in enumerate("sc")}
    table = reliability_table(cells, [3, 8], 0).query("kind == 'corrupt_seed'")
    for row in table.itertuples():
        whole = cells[row.format]
        draws = [replace(whole, effects={at: own[[n]] for at, own in whole.effects.items()}) for n in (0, 1)]
        common, union = plain_counts(draws, row.k).sum(0)
        assert row.jaccard == pytest.approx(common / union)
    assert len(table) == 4


def test_what_is_said_of_a_formats_best_is_that_of_plain_loops():
    cells = {"s": cell(0, 0.2, candidates=np.arange(37, 4, -2)), "c": cell(1, candidates=EVERY[:17])}
    table = reliability_table(cells, [3, 8], 0).set_index(["format", "k"])
    assert table.loc["s+c", [*BEST]].isna().all(axis=None)
    for (name, own), k in product(cells.items(), (3, 8)):
        common, either, raising, shares = 0, 0, [], []
        for layer, change in own.probability_change.items():
            best = plain_top(own, slice(None), layer, k)
            lowering = plain_top(replace(own, effects={layer: -change[None, None]}), slice(None), layer, k)
            common, either = common + len(best & lowering), either + len(best | lowering)
            for place in (own.candidates[layer].tolist().index(neuron) for neuron in best):
                raising.append(change[place] > 0)
                by_prompt = [abs(sum(draws) / 2) for draws in own.effects[layer][:, :, place].T]
                shares.append(max(by_prompt) / sum(by_prompt))
        expected = [common / either, np.mean(raising), np.median(shares)]
        assert 0 < expected[0] < 1
        assert table.loc[(name, k), [*BEST]].to_numpy() == pytest.approx(np.tile(expected, (3, 1)), rel=1e-5)


def test_what_rounding_does_to_a_probability_is_no_change():
    """Two processors' rounding gives one table: a change that float32 cannot tell from none has no sign."""
    rng = np.random.default_rng(4)
    cells = {name: of_all(name, rng.normal(size=(1, 4, 9))) for name in "sc"}
    noise = [
        {name: replace(cell, probability_change={3: draw}) for name, cell in cells.items()}
        for draw in rng.normal(scale=2e-6, size=(2, 9))
    ]
    first, second = (reliability_table(noisy, [2], 0) for noisy in noise)
    pd.testing.assert_frame_equal(first, second)
    assert set(first["raising"].dropna()) == {0}


def test_formats_that_share_nothing_have_an_interval():
    cells = {}
    for place, name in enumerate("scw"):
        effects = np.full((1, 6, 30), 0.1)
        effects[..., 10 * place :][..., :10] = 1 + np.arange(10)
        cells[name] = of_all(name, effects)
    table = overlap_table(cells, [10], 40, 0)
    pooled = table[(table["layer"] == -1) & (table["formats"] == "s+c+w")].iloc[0]
    assert (pooled["jaccard"], pooled["low"], pooled["union"]) == (0, 0, 30)
    assert pooled["high"] == pytest.approx(-np.log(0.025) / 30)


@pytest.mark.parametrize("rule", ["positive", "top_k"])
def test_dead_neurons_are_never_shared(rule):
    """30 of 40 neurons are dead, in one layer all. Ordered by number, dead ones would fill up each top 25."""
    effects = np.tile(np.arange(40) % 4 == 0, (2, 12, 1)).astype(float)
    members = {name: of_all(name, effects, effects, 0 * effects, rule=rule) for name in "scw"}
    assert set(circuit_table(members, [25])["neuron"]) == set(range(0, 40, 4))
    row = overlap_table(members, [25], 5, 0).query("layer == -1 and formats == 's+c+w'").iloc[0]
    by_chance = expected_jaccard((10,) * 3, one_region(3, 40))
    assert row[["members", "jaccard", "chance"]].tolist() == pytest.approx([20, 1, by_chance])


@pytest.mark.parametrize("effect", [0.0, -1.0])
def test_where_no_set_has_a_member_the_overlap_is_undefined(effect):
    none = {name: of_all(name, np.full((2, 12, 40), effect)) for name in "sc"}
    table = overlap_table(none, [5], 10, 0)
    assert table[["jaccard", "chance", "low", "high"]].isna().all(axis=None)
    assert table[["members", "union"]].eq(0).all(axis=None)
    assert reliability_table(none, [5], 0)[["jaccard", *BEST]].isna().all(axis=None)
    assert circuit_table(none, [5]).empty


def test_equal_effects_are_ordered_differently_in_each_format():
    """If all effects are equal, sets of k agree by chance alone; ordered by number they would be the same."""
    cells = {name: of_all(name, np.ones((1, 4, 400))) for name in "sc"}
    row = overlap_table(cells, [100], 2, 0).iloc[0]
    assert row["jaccard"] == pytest.approx(row["chance"], abs=0.05)


@pytest.mark.parametrize("candidates", [("01234",) * 3, ("0123", "1234", "0234")], ids=["the same", "others"])
@pytest.mark.parametrize("sizes", ["22", "13", "02", "44", "222", "444", "123", "022", "441", "203"])
def test_expected_jaccard_equals_enumeration(sizes, candidates):
    """The sets have these sizes; their candidates are five elements, all of them or some."""
    sizes = tuple(map(int, sizes))
    subsets = [map(frozenset, combinations(some, size)) for some, size in zip(candidates, sizes, strict=False)]
    values = [len(frozenset.intersection(*some)) / len(frozenset.union(*some)) for some in product(*subsets)]
    regions = regions_of(np.array([[str(n) in some for n in range(5)] for some in candidates[: len(sizes)]]))
    exact = len(sizes) == 2 or len(regions) == 1
    error = 1e-12 if exact else 1e-12 + 4 * np.std(values) / DRAWS**0.5
    assert expected_jaccard(sizes, regions) == pytest.approx(np.mean(values), abs=error)
    assert random_jaccards(sizes, regions).std() == pytest.approx(np.std(values), abs=0.02)


def test_expected_jaccard_of_large_sets_is_near_that_of_their_expected_sizes():
    """Three sets are computed exactly, four by draws."""
    for number in (3, 4):
        expected = 0.25**number / (1 - 0.75**number)
        assert expected_jaccard((3500,) * number, one_region(number, 14000)) == pytest.approx(expected, rel=0.01)


def test_unrelated_formats_seldom_share_more_of_their_candidates_than_by_chance():
    """Candidates are mostly common, and the prompts agree on the best of them, which differ between formats."""
    rng, ks, found = np.random.default_rng(0), [3, 10], []
    for trial in range(60):
        cells = {}
        for place, name in enumerate("scw"):
            others = 30 + rng.choice(70, 10, replace=False)
            one = cell(3 * trial + place, candidates=np.sort(np.r_[:30, others]))
            truth = {layer: 20 * rng.random(40) for layer in one.effects}
            effects = {layer: own + truth[layer].astype(np.float32) for layer, own in one.effects.items()}
            cells[name] = replace(one, effects=effects, width=100, name=name)
        found.append(overlap_table(cells, ks, 30, trial).query("layer == -1"))
    table = pd.concat(found, ignore_index=True)
    beyond = beyond_chance(table)
    assert (np.mean([beyond["low"] > 0, beyond["high"] < 0], axis=1) <= 0.05).all()
    assert table["jaccard"].mean() == pytest.approx(table["chance"].mean(), abs=0.01)
    assert (table["chance"] > 1.5 * table["chance_neurons"]).all()


def test_formats_with_the_same_true_effects_reach_the_ceiling_of_parts_and_no_others():
    rng = np.random.default_rng(0)

    def noisy(truth):
        return of_all("", truth + 4 * rng.normal(size=(1, 90, 200)))

    truth, other = rng.normal(size=(2, 200))
    same = reliability_table({name: noisy(truth) for name in "scw"}, [40], seed=0)
    ceiling = same.query("kind == 'parts'")["jaccard"].mean()
    across = same.query("kind == 'across_parts'")
    assert across["format"].tolist() == ["s+c+w"]
    assert across["jaccard"].item() == pytest.approx(ceiling, abs=0.05)
    # Two rankings by halves of the prompts agree better than three by thirds, so they are no ceiling for three.
    assert same.query("kind == 'split_half'")["jaccard"].mean() > ceiling + 0.1
    half = reliability_table({"s": noisy(truth), "c": noisy(truth), "w": noisy(other)}, [40], seed=0)
    assert half.query("kind == 'across_parts'")["jaccard"].item() < ceiling - 0.1
    overlap = filled(OVERLAP, [("s+c+w", -1, 40)], "formats layer k", keys="operator", operator="+", used=True)
    names = "formats layer operator pearson corrected"
    correlation = filled(FORMAT_CORRELATION, [(ALL, -1, ALL, 0.5, 0.9)], names)
    given = {"overlap": overlap, "reliability": half.assign(operator="+"), "format_correlation": correlation}
    (told,) = answer(given, 40)
    means = half.groupby("kind")["jaccard"].mean()
    parts = told.table[["Jaccard by parts", "ceiling of that"]].iloc[0].tolist()
    assert parts == pytest.approx(means[["across_parts", "parts"]].tolist())
    assert "effects is 0.50; corrected for reliability, 0.90." in told.sentence
    best = half.drop_duplicates("format")[[*BEST]].mean()
    assert "for 0% of a format's best 40, they overlap by 100% with the 40 that lower it most" in told.sentence
    assert f"makes up {best['largest_prompt']:.0%} of the median one's effect" in told.sentence


def test_a_circuit_of_three_layers_as_a_mask():
    table = pd.DataFrame({"k": [5, 5, 5, 9], "layer": [4, 5, 6, 4], "neuron": [1, 2, 0, 3]})
    assert np.argwhere(circuit_members(table, 5, range(4, 7), 4)).tolist() == [[0, 1], [1, 2], [2, 0]]


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
    cells = {key: cell(seed) for seed, key in enumerate(product("sw", "abc"))}
    table = operator_overlap_table(cells, [3, 8], resamples=20, seed=0)
    assert len(table) == 2 * 3 * 2
    for row in table.itertuples():
        own = [cells[row.format, operator] for operator in row.operators.split("+")]
        common, union = plain_counts(own, row.k).sum(0)
        assert (row.intersection, row.union) == (common, union)
        assert row.jaccard == pytest.approx(common / union)
        assert row.k == 8 or row.chance == pytest.approx(3 / 77, abs=0.01)
        assert row.low <= row.jaccard <= row.high
    twice = with_another(table)
    assert twice.groupby("operator").size().to_dict() == dict.fromkeys("abc", 8)
    assert all(own in both.split("+") for own, both in zip(twice["operator"], twice["operators"], strict=True))
