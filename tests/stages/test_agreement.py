import warnings
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled

from form_invariance.stages.agreement import compute
from form_invariance.stages.agreement.answer import INPUTS, answer
from form_invariance.stages.agreement.compute import STATISTICS, agreement_table, encode, permutation_test
from form_invariance.stages.agreement.contrasts import by_neuron, correlated, same_families, unpaired
from form_invariance.stages.agreement.correlation import correlation_table
from form_invariance.stages.agreement.table import ACTIVATION_CORRELATION, AGREEMENT, LABELLED
from form_invariance.stages.heuristics.names import FAMILIES
from form_invariance.stages.heuristics.table import HEURISTICS


def test_statistics_equal_plain_sets():
    labels = np.random.default_rng(0).random((3, 40, 11)) < 0.15
    neurons = [[set(np.flatnonzero(row)) for row in own] for own in labels.swapaxes(0, 1)]
    pairs = [pair for sets in neurons for pair in combinations(sets, 2)]

    def jaccard(several):
        return [len(set.intersection(*sets)) / len(set.union(*sets)) for sets in several if any(sets)]

    expected = {
        "common": [bool(set.intersection(*sets)) for sets in neurons],
        "exact": [sets[0] == sets[1] == sets[2] != set() for sets in neurons],
        "pair_jaccard": jaccard(pairs),
        "three_way_jaccard": jaccard(neurons),
    }
    found = compute.statistics(encode(labels))
    for name, values in expected.items():
        assert found[name] == pytest.approx(np.mean(values), abs=1e-12), name


def test_without_a_label_nothing_agrees_and_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nobody = agreement_table({name: np.zeros((3, 2), dtype=bool) for name in "scw"}, np.zeros(3), 10, 0, "x")
    assert nobody["statistic"].tolist() == [*STATISTICS] * 6
    assert nobody[nobody["over"] != "shared"][["observed", "null_mean", "null_max", "p"]].isna().all(axis=None)
    assert nobody[nobody["statistic"] == "pair_jaccard"]["p"].isna().all()


def test_operator_tables_read_the_labels_of_every_mode_and_neuron():
    shared = pd.DataFrame({"layer": [3, 3, 4, 6], "neuron": [7, 9, 7, 1]})
    places = list(shared.itertuples(index=False, name=None))
    # Baselines may have the numbers of shared neurons.
    other = shared.assign(neurons="random_direction")
    names = list(dict.fromkeys(label for _, label in FAMILIES))
    rng = np.random.default_rng(0)
    samples = [("shared", "observed"), ("shared", "shuffled"), ("random_direction", "observed")]
    which = [(mode, *sample) for mode in ("reference", "strict") for sample in samples]
    labels = {key: {name: rng.random((4, len(names))) < 0.1 for name in "scw"} for key in which}
    tables = {}
    for name in "scw":
        every = product(which, enumerate(places), enumerate(names))
        rows = [(*key, *place, kind, labels[key][name][row, at]) for key, (row, place), (at, kind) in every]
        table = filled(HEURISTICS, rows, "mode neurons activations layer neuron family label")
        tables[name] = table.sample(frac=1, random_state=0)
    neurons = pd.concat([shared.assign(neurons="shared"), other])
    found, labelled = compute.operator_tables(tables, neurons, 20, 0, "x")
    for table in (found, labelled):
        assert table.index.equals(pd.RangeIndex(len(table)))
    keys = ["mode", "kind", "activations"]
    for key in which:
        some = labels[key]
        expected = agreement_table(some, shared["layer"].to_numpy(), 20, 0, "/".join(("x", *key)))
        got = found[(found[keys] == pd.Series(key, keys)).all(axis=1)].drop(columns=keys)
        pd.testing.assert_frame_equal(got.reset_index(drop=True), expected)
        times = sum(one.any(1) for one in some.values()).tolist()
        counts = labelled[(labelled[keys] == pd.Series(key, keys)).all(axis=1)]
        assert counts["formats"].tolist() == [0, 1, 2, 3]
        assert counts["neurons"].tolist() == [times.count(number) for number in range(4)]


@pytest.mark.parametrize("by_layer", [False, True])
def test_the_null_is_the_mean_over_all_pairs_of_neurons(by_layer):
    """Permutations of two formats pair any two neurons (of one layer) equally often."""
    labels = np.random.default_rng(1).random((2, 12, 4)) < 0.3
    labels[..., 0] |= ~labels.any(-1)
    layers = np.repeat([4, 5, 7], [5, 4, 3])
    table = permutation_test(encode(labels), layers if by_layer else None, 4000, 0, "x").set_index("statistic")
    pairs = [(i, j) for i in range(12) for j in range(12) if not by_layer or layers[i] == layers[j]]
    weight = [1 / (12 * sum(i == one for one, _ in pairs)) for i, _ in pairs]
    both = [(labels[0, i] & labels[1, j]).sum() for i, j in pairs]
    either = [(labels[0, i] | labels[1, j]).sum() for i, j in pairs]
    jaccard = np.divide(both, either)
    for statistic, values in {"common": np.sign(both), "exact": jaccard == 1, "pair_jaccard": jaccard}.items():
        assert table.loc[statistic, "null_mean"] == pytest.approx(np.dot(weight, values), abs=0.01), statistic
    assert (table["null_max"] >= table["null_mean"]).all()


def test_every_permutation_keeps_the_sets_of_a_format_and_of_a_layer():
    sets, layers = np.arange(60, dtype=np.uint32), np.repeat([2, 5], [40, 20])
    for within, parts in ((None, [slice(None)]), (layers, [slice(40), slice(40, None)])):
        shuffled = compute._shuffle(sets, within, 30, np.random.default_rng(0))
        for part in parts:
            assert (np.sort(shuffled[:, part], axis=1) == sets[part]).all()
        assert len({tuple(row) for row in shuffled.tolist()}) == 30


@pytest.mark.parametrize("permutations", [1, 50])
def test_permutations_in_batches_are_as_many_as_asked_for(permutations, monkeypatch):
    streams, drawn, sizes, shuffle = [], compute.generator, [], compute._shuffle
    monkeypatch.setattr(compute, "generator", lambda *given: streams.append(given) or drawn(*given))
    monkeypatch.setattr(compute, "_shuffle", lambda *given: sizes.append(given[2]) or shuffle(*given))
    monkeypatch.setattr(compute, "_ROWS", 7 * 20 + 19)
    alike = np.full((3, 20), 5, dtype=np.uint32)  # all permutations of equal sets are as good as the observed one
    table = permutation_test(alike, None, permutations, 0, "x")
    assert table["p"].tolist() == [1, 1, 1, 1]
    assert table[["observed", "null_mean", "null_max"]].eq(1).all(axis=None)
    assert sizes[::3] == ([1] if permutations == 1 else [7] * 7 + [1])
    distinct = np.tile(np.arange(1, 21, dtype=np.uint32), (3, 1))  # only one permutation in 20!² is as good
    table = permutation_test(distinct, None, permutations, 0, "x").set_index("statistic")
    assert table.loc["exact", "p"] == 1 / (1 + permutations)
    assert {*streams} == {(0, "agreement", "x")}


def test_over_and_scope_choose_the_neurons_and_their_permutations():
    labels = dict(zip("scw", np.random.default_rng(2).random((3, 30, 5)) < 0.15, strict=True))
    layers = np.repeat([2, 3], 15)
    table = agreement_table(labels, layers, 40, 3, "x")
    times = sum(one.any(1).astype(int) for one in labels.values())
    for over, chosen in {"shared": times >= 0, "any": times >= 1, "all": times == 3}.items():
        for scope, within in {"all": None, "layer": layers[chosen]}.items():
            sets = encode(np.stack([one[chosen] for one in labels.values()]))
            expected = permutation_test(sets, within, 40, 3, f"x/{over}/{scope}")
            got = table[(table["over"] == over) & (table["scope"] == scope)]
            pd.testing.assert_frame_equal(got[expected.columns].reset_index(drop=True), expected)
            assert got["neurons"].eq(chosen.sum()).all()
    for seed, name in ((4, "x"), (3, "y")):
        assert not agreement_table(labels, layers, 40, seed, name)["null_mean"].equals(table["null_mean"])


def answers(**tables):
    """The answers from these tables; the other tables are empty."""
    empty = {name: crossed(schema, "operator", operator=[]) for name, schema in INPUTS.items()}
    return answer({**empty, **tables}, 2)


def labelled_table(counts):
    """Strict labels of observed activations: {(operator, kind): neurons labelled in 0, 1, 2 formats}."""
    rows = [(*key, formats, number) for key, own in counts.items() for formats, number in enumerate(own)]
    names = "operator kind formats neurons"
    table = filled(LABELLED, rows, names, "operator", mode="strict", activations="observed")
    return pd.concat([table, table.assign(activations="shuffled", neurons=0)])


def test_the_answer_compares_labels_with_the_strongest_baseline():
    counts = {("+", "shared"): (10, 0, 90), ("-", "shared"): (20, 20, 60), ("+", "smooth_noise"): (100, 0, 0)}
    counts |= {("-", "smooth_noise"): (100, 0, 0), ("+", "matched_effect"): (50, 0, 50)}
    counts |= {("-", "matched_effect"): (60, 20, 20)}
    found = answers(labelled=labelled_table(counts))[2]
    assert found.table.set_index("operator").loc["-", "shared"] == pytest.approx(0.7)
    assert "+40.0 percentage points" in found.sentence
    assert found.sentence.endswith(": yes.")
    nobody = labelled_table({("+", "shared"): (0, 0, 0)})
    assert answers(labelled=nobody)[2].sentence.startswith("No neuron is shared")


def agreed(counts):
    """Exact match of strict labels: {(operator, kind, over): (equal sets, neurons)}."""
    rows = [(*key, number, same / number if number else np.nan) for key, (same, number) in counts.items()]
    wanted = {"mode": "strict", "activations": "observed", "scope": "all", "statistic": "exact"}
    table = filled(AGREEMENT, rows, "operator kind over neurons observed", "operator", **wanted)
    return pd.concat([table, *(table.assign(**{name: "other"}, observed=0.0) for name in wanted)])


def test_neurons_of_two_kinds_are_resampled_by_themselves():
    first, second = np.repeat([1.0, 0.0], [30, 20]), np.repeat([1.0, 0.0], [20, 60])
    pair = unpaired(first, second, "+", "matched_effect")
    assert (pair.first[0], pair.second[0], pair.prompts) == (0.6, 0.25, (50,))
    errors = np.sqrt([0.6 * 0.4 / 50, 0.25 * 0.75 / 80])
    assert (pair.first - pair.second)[1:].std() == pytest.approx(np.hypot(*errors), rel=0.1)


def test_equal_families_are_compared_with_those_of_neurons_that_are_not_shared():
    """Shared neurons may agree far more than permuted ones, but no more than other neurons."""
    alike = {"shared": (87, 100), "matched_variance": (88, 100), "matched_effect": (85, 100)}
    alike["smooth_noise"] = (99, 99)
    counts = {(operator, kind, "all"): pair for operator in "+-" for kind, pair in alike.items()}
    more = {"shared": (60, 100), "matched_variance": (0, 0), "matched_effect": (20, 80)}
    counts |= {(operator, kind, "any"): pair for operator in "+-" for kind, pair in more.items()}
    rows = pd.DataFrame(same_families(agreed(counts))).set_index(["over", "operator"])
    assert rows.index.tolist() == [(over, name) for over in ("all", "any") for name in ("+", "-", "all")]
    row = rows.loc[("all", "all")]
    assert row[["first", "second", "difference"]].tolist() == pytest.approx([0.87, 0.88, -0.01])
    assert (row["control"], row["cells"], row["verdict"]) == ("matched_variance", 2, "undecided")
    row = rows.loc[("any", "+")]
    assert (row["control"], row["prompts"], row["verdict"]) == ("matched_effect", 80, "yes")
    assert "all formats: -1.0 percentage points" in answers(agreement=agreed(counts))[1].sentence


def test_correlations_equal_numpy():
    rng = np.random.default_rng(0)
    samples = {name: rng.normal(3, 2, size=(6, 50)).astype(np.float32) for name in "scw"}
    samples["s"] += 4 * samples["w"]
    samples["c"][2] = 0.1  # its mean in float32 is not exact
    neurons = pd.DataFrame({"neurons": [*"aaa", *["shared"] * 3], "layer": [3, 3, 4] * 2, "neuron": range(6)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = correlation_table(samples, neurons)
    assert table["formats"].tolist() == [one for one in ("s+c", "s+w", "c+w") for _ in range(6)]
    for row in table.to_dict("records"):
        first, second = row["formats"].split("+")
        place = row["neuron"]
        assert (row["kind"], row["layer"]) == tuple(neurons.loc[place, ["neurons", "layer"]])
        if place == 2 and "c" in row["formats"]:
            assert np.isnan(row["correlation"])
        else:
            expected = np.corrcoef(samples[first][place], samples[second][place])[0, 1]
            assert row["correlation"] == pytest.approx(expected, abs=1e-12), row
    means = by_neuron(table.assign(operator="+")).droplevel(["operator", "kind", "layer"])
    every = table.groupby("neuron")["correlation"].mean()
    every[2] = np.nan
    pd.testing.assert_series_equal(means.sort_index(), every, check_names=False)


def related(kinds, neurons=40, spread=0.05):
    """Activation correlations around one value a kind; three neurons of each have none with one format."""
    keys = {"operator": ["+", "-"], "kind": [*kinds], "neuron": range(neurons), "formats": ["s+c", "s+w", "c+w"]}
    table = crossed(ACTIVATION_CORRELATION, "operator", **keys, layer=3)
    noise = np.random.default_rng(4).normal(size=len(table))
    table["correlation"] = table["kind"].map(kinds) + spread * noise
    table.loc[(table["neuron"] < 3) & (table["formats"] != "s+c"), "correlation"] = np.nan
    return table


def answered(table):
    """The first answer, where three of four shared neurons of one operator have equal families."""
    families = agreed({("+", "shared", "all"): (3, 4), ("-", "shared", "all"): (0, 0)})
    families = families.assign(null_mean=0.1, p=families["observed"])
    return answers(agreement=families, activation_correlation=table)[0]


KINDS = {"shared": 0.9, "matched_variance": 0.3, "matched_effect": 0.5, "random_direction": 0, "smooth_noise": 0}


def test_correlations_are_compared_with_the_strongest_of_neurons_that_are_not_shared():
    neurons = by_neuron(related(KINDS))
    rows = pd.DataFrame(correlated(neurons)).set_index("operator")
    assert rows.index.tolist() == ["+", "-", "all"]
    assert rows["control"].eq("matched_effect").all()
    assert rows["prompts"].tolist() == [37, 37, 74]
    means = neurons.groupby(["operator", "kind"]).mean().unstack("kind")
    for name, kind in (("first", "shared"), ("second", "matched_effect")):
        assert rows[name].tolist() == pytest.approx([*means[kind], means[kind].mean()])
    assert rows["verdict"].eq("yes").all()
    found = answered(related(KINDS))
    difference = rows.loc["all", "difference"]
    assert f"the others in each operator: {difference:+.3f}" in found.sentence
    assert "75% have exactly the same heuristic families in all of them (mean over" in found.sentence
    assert "; 10% if neurons are permuted." in found.sentence
    shown = found.table.set_index("operator")
    assert shown["correlation, not shared, same effect"].tolist() == pytest.approx([*means["matched_effect"]])
    assert shown["difference"].tolist() == pytest.approx(rows["difference"][:2].tolist())


def test_alike_few_or_equal_neurons_have_no_verdict_of_yes():
    alike = related(dict.fromkeys(KINDS, 0.5))
    assert pd.DataFrame(correlated(by_neuron(alike)))["verdict"].eq("undecided").all()
    few, copies = related(KINDS, neurons=7), related(dict.fromkeys(KINDS, 1), spread=0)
    for table in (few, copies):
        assert pd.DataFrame(correlated(by_neuron(table)))["verdict"].eq("undefined").all()
        assert "Activations are not compared, because" in answered(table).sentence
