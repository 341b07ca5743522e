"""Recall of the exact top-k, against counting by hand."""

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.stages.audit.compute import audit_cell
from form_invariance.tables.columns import EVERY_LAYER

METHODS = ("attribution", "relp")


def places(values):
    return np.argsort(np.argsort(-values)) + 1


def cell(width, layers, seed, first=3):
    """A ranking table of random effects, and tables of random estimates."""
    rng = np.random.default_rng(seed)
    ranking, estimates = [], {method: [] for method in METHODS}
    for layer in range(first, first + layers):
        exact = rng.normal(size=width)
        columns = {"layer": layer, "neuron": np.arange(width)}
        ranking.append(pd.DataFrame({**columns, "rank": places(exact), "ie_mean": exact}).sort_values("rank"))
        for rows in estimates.values():
            score = rng.normal(size=width)
            rows.append(pd.DataFrame({**columns, "score": score, "rank": places(score)}))
    return pd.concat(ranking, ignore_index=True), {name: pd.concat(rows) for name, rows in estimates.items()}


def test_recall_by_hand():
    ranking, estimates = cell(50, 2, seed=1)
    found = audit_cell(ranking, estimates, 50, [5, 20])
    assert set(found["method"]) == set(METHODS)
    for row in found[found["layer"] != EVERY_LAYER].itertuples():
        own = ranking[ranking["layer"] == row.layer]
        given = estimates[row.method].query("layer == @row.layer")
        best = set(own.nlargest(row.k, "ie_mean")["neuron"])

        def recall(candidates, best=best, given=given):
            return len(best & set(given.nlargest(candidates, "score")["neuron"])) / len(best)

        assert row.recall == pytest.approx(recall(row.candidates))
        assert row.enough == next(n for n in range(1, 51) if recall(n) >= 0.99)
        both = own.merge(given, on="neuron")[["ie_mean", "score"]].rank()
        assert row.rank_correlation == pytest.approx(np.corrcoef(both.T)[0, 1])
    key = ["method", "k", "candidates"]
    pooled = found[found["layer"] == EVERY_LAYER].set_index(key)
    by_layer = found[found["layer"] != EVERY_LAYER].groupby(key)
    for name in ("recall", "rank_correlation"):
        pd.testing.assert_series_equal(pooled[name].sort_index(), by_layer[name].mean())
    assert (found[found["candidates"] == 50]["recall"] == 1).all()


def test_enough_over_all_layers_is_for_their_mean_recall():
    """Of 200 exact best neurons two may be missed: here those that one layer has far behind."""
    ranking, estimates = cell(120, 2, seed=4)
    for table in estimates.values():
        table["rank"], table["score"] = table["neuron"] + 1, -table["neuron"]
    ranking["rank"] = ranking["neuron"] + 1
    ranking["ie_mean"] = -1.0 * ranking["neuron"] - 1
    late = (ranking["layer"] == 3) & ranking["neuron"].isin([98, 99])
    ranking.loc[late, "neuron"] += 20
    ranking = ranking[~((ranking["layer"] == 3) & ~late & ranking["neuron"].isin([118, 119]))]
    extra = pd.DataFrame({"layer": 3, "neuron": [98, 99], "rank": [119, 120], "ie_mean": [-200.0, -201.0]})
    found = audit_cell(pd.concat([ranking, extra]), estimates, 120, [100]).drop_duplicates(["method", "layer"])
    enough = found.set_index(["method", "layer"])["enough"].unstack()
    assert enough[3].eq(119).all()
    assert enough[4].eq(99).all()
    assert enough[EVERY_LAYER].eq(100).all()


def test_a_method_that_is_right_lets_all_through():
    ranking, estimates = cell(40, 1, seed=2)
    right = ranking.assign(score=ranking["ie_mean"])[["layer", "neuron", "score", "rank"]]
    found = audit_cell(ranking, {**estimates, "relp": right}, 40, [8]).query("method == 'relp'")
    assert found["rank_correlation"].to_numpy() == pytest.approx(1)
    assert (found[found["candidates"] >= 8]["recall"] == 1).all()
    assert found[found["candidates"] == 4]["recall"].eq(0.5).all()
    assert found["enough"].eq(8).all()


def test_neurons_without_effect_cannot_be_missed():
    ranking, estimates = cell(40, 1, seed=5)
    ranking["ie_mean"] = np.where(ranking["rank"] <= 3, ranking["ie_mean"], 0.0)
    ranking, nothing = ranking.sort_values("rank"), ranking.assign(ie_mean=0.0)
    found = audit_cell(ranking, estimates, 40, [8]).query("method == 'relp' and layer == 3")
    given = estimates["relp"].set_index("neuron")["rank"]
    assert found["enough"].eq(given[ranking["neuron"].head(3)].max()).all()
    assert audit_cell(nothing, estimates, 40, [8])[["recall", "enough"]].isna().all(axis=None)


def test_not_every_neuron_was_patched():
    ranking, estimates = cell(30, 1, seed=3)
    with pytest.raises(UserError, match="30 of the 31 neurons of layer 3 were patched"):
        audit_cell(ranking, estimates, 31, [3])
