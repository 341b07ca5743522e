import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from form_invariance.agreement import agreement_table, encode, operator_tables, permutation_test, statistics


def plain(labels):
    """The statistics of (formats, neurons, families), set by set."""
    sets = [[set(np.flatnonzero(row)) for row in one] for one in labels]
    n = len(sets[0])
    common = sum(bool(set.intersection(*(one[i] for one in sets))) for i in range(n)) / n
    exact = sum(all(one[i] == sets[0][i] for one in sets) for i in range(n)) / n

    def jaccard(some):
        union = set.union(*some)
        return len(set.intersection(*some)) / len(union) if union else None

    pairs = [jaccard([sets[x][i], sets[y][i]]) for x, y in ((0, 1), (0, 2), (1, 2)) for i in range(n)]
    three = [jaccard([one[i] for one in sets]) for i in range(n)]
    mean = lambda values: np.mean([value for value in values if value is not None])  # noqa: E731
    return {"common": common, "exact": exact, "pair_jaccard": mean(pairs), "three_way_jaccard": mean(three)}


def test_statistics_equal_plain_sets():
    labels = np.random.default_rng(0).random((3, 40, 11)) < 0.15
    found = statistics(encode(labels))
    for name, value in plain(labels).items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


def test_p_is_uniform_without_agreement_and_tiny_with():
    rng = np.random.default_rng(3)
    values = []
    for trial in range(500):
        sets = encode(rng.random((3, 60, 11)) < 0.3)
        table = permutation_test(sets, None, 199, trial, "null").set_index("statistic")
        values.append(table.loc["pair_jaccard", "p"])
    assert kstest(values, "uniform").pvalue > 0.01
    assert 0.02 < np.mean(np.array(values) <= 0.05) < 0.085
    base = rng.random((1, 60, 11)) < 0.3
    planted = base ^ (rng.random((3, 60, 11)) < 0.05)
    table = permutation_test(encode(planted), None, 10_000, 0, "planted")
    assert (table.set_index("statistic")["p"][["exact", "pair_jaccard", "three_way_jaccard"]] < 2e-4).all()
    assert (table["observed"] > table["null_max"]).all()


def test_agreement_by_layer_alone_is_no_agreement_within_layers():
    rng = np.random.default_rng(5)
    layers = np.repeat([16, 17, 18], 40)
    families = np.stack([rng.random((120, 6)) < 0.1 for _ in range(3)])
    for format_labels in families:
        for number, layer in enumerate((16, 17, 18)):
            format_labels[layers == layer, number] = rng.random(40) < 0.9
    table = agreement_table(dict(zip("scw", families, strict=True)), layers, 500, 0, "x")
    rows = table[(table["over"] == "all") & (table["statistic"] == "pair_jaccard")].set_index("scope")
    assert rows.loc["all", "p"] < 0.01
    assert rows.loc["layer", "p"] > 0.05
    assert rows.loc["all", "observed"] == rows.loc["layer", "observed"]


def test_counts_and_denominators():
    labels = {name: np.zeros((4, 2), dtype=bool) for name in "scw"}
    labels["s"][0] = labels["c"][0] = labels["w"][0] = [True, False]
    labels["s"][1] = [False, True]
    labels["s"][2] = labels["c"][2] = [True, True]
    table = agreement_table(labels, np.zeros(4, dtype=int), 50, 0, "x")
    over = table[(table["scope"] == "all") & (table["statistic"] == "exact")].set_index("over")
    assert over["neurons"].to_dict() == {"shared": 4, "any": 3, "all": 1}
    assert over["observed"].to_dict() == {"shared": 0.5, "any": pytest.approx(1 / 3), "all": 1.0}
    nobody = agreement_table({name: np.zeros((3, 2), dtype=bool) for name in "scw"}, np.zeros(3), 10, 0, "x")
    assert nobody[nobody["over"] != "shared"]["observed"].isna().all()
    assert nobody[nobody["statistic"] == "pair_jaccard"]["p"].isna().all()


def heuristics_table(rows):
    columns = ["mode", "activations", "layer", "neuron", "family", "label"]
    return pd.DataFrame(rows, columns=columns).astype({"layer": "int64", "neuron": "int64", "label": bool})


def test_operator_tables_read_labels_of_the_right_neurons():
    shared = pd.DataFrame({"layer": [3, 3, 4], "neuron": [7, 9, 7]})
    row = ("reference", "observed", 4, 7, "result value", True)
    other = ("reference", "observed", 3, 9, "operand range", True)
    low = ("reference", "observed", 3, 7, "operand range", False)
    tables = {"s": heuristics_table([row, other]), "c": heuristics_table([row, low]), "w": heuristics_table([row])}
    found, labelled = operator_tables(tables, shared, 20, 0, "x")
    counts = labelled.query("mode == 'reference' and activations == 'observed'").set_index("formats")["neurons"]
    assert counts.to_dict() == {0: 1, 1: 1, 2: 0, 3: 1}
    value = found.query(
        "mode == 'reference' and activations == 'observed' and over == 'shared' and statistic == 'common'"
    )
    assert value["observed"].eq(1 / 3).all()
    assert labelled.query("mode == 'strict' and formats == 0")["neurons"].eq(3).all()


def test_no_shared_neuron_agrees_with_nothing():
    shared = pd.DataFrame({"layer": [], "neuron": []}, dtype="int64")
    found, labelled = operator_tables({name: heuristics_table([]) for name in "scw"}, shared, 20, 0, "x")
    assert found["neurons"].eq(0).all()
    assert found[["observed", "null_mean", "null_max", "p"]].isna().all(axis=None)
    assert labelled["neurons"].eq(0).all()
