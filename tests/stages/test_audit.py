"""Recall of the exact top-k, against counting by hand."""

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.stages.audit.compute import audit, audit_cell
from form_invariance.tables.columns import EVERY_LAYER


def ranking(width, layers, seed, first=3):
    """A ranking table of random effects and first-stage scores."""
    rng = np.random.default_rng(seed)
    parts = []
    for layer in range(first, first + layers):
        exact, score = rng.normal(size=(2, width))
        ranks = [np.argsort(np.argsort(-values)) + 1 for values in (exact, score)]
        columns = {
            "layer": layer,
            "neuron": np.arange(width),
            "rank": ranks[0],
            "ie_mean": exact,
            "attribution_score": score,
            "attribution_rank": ranks[1],
        }
        parts.append(pd.DataFrame(columns).sort_values("rank"))
    return pd.concat(parts, ignore_index=True)


def test_recall_by_hand():
    table = ranking(50, 2, seed=1)
    found = audit_cell(table, 50, [5, 20])
    for row in found[found["layer"] != EVERY_LAYER].itertuples():
        own = table[table["layer"] == row.layer]
        best = set(own.nlargest(row.k, "ie_mean")["neuron"])
        through = set(own.nlargest(row.candidates, "attribution_score")["neuron"])
        assert row.recall == pytest.approx(len(best & through) / row.k)
        ranks = own[["ie_mean", "attribution_score"]].rank()
        assert row.rank_correlation == pytest.approx(np.corrcoef(ranks.T)[0, 1])
    pooled = found[found["layer"] == EVERY_LAYER].set_index(["k", "candidates"])["recall"]
    by_layer = found[found["layer"] != EVERY_LAYER].groupby(["k", "candidates"])["recall"].mean()
    pd.testing.assert_series_equal(pooled.sort_index(), by_layer, check_names=False)
    assert (found[found["candidates"] == 50]["recall"] == 1).all()


def test_a_first_stage_that_is_right_lets_all_through():
    table = ranking(40, 1, seed=2)
    table["attribution_rank"], table["attribution_score"] = table["rank"], table["ie_mean"]
    found = audit_cell(table, 40, [8])
    assert found["rank_correlation"].to_numpy() == pytest.approx(1)
    assert (found[found["candidates"] >= 8]["recall"] == 1).all()
    assert found[found["candidates"] == 4]["recall"].eq(0.5).all()


def test_all_cells():
    tables = {(name, "addition"): ranking(30, 1, seed) for seed, name in enumerate(["symbolic", "word"])}
    assert set(audit(tables, 30, [3])["format"]) == {"symbolic", "word"}


def test_not_every_neuron_was_patched():
    with pytest.raises(UserError, match="30 of the 31 neurons of layer 3 were patched"):
        audit_cell(ranking(30, 1, seed=3), 31, [3])
