import numpy as np
import pandas as pd
import pytest

from form_invariance.beyond.precision import compute as precision
from form_invariance.beyond.precision.answer import answer


def test_correlation_and_overlap_by_hand(monkeypatch):
    monkeypatch.setattr(precision, "TOP", 2)
    neurons = {4: np.array([9, 3, 5, 7]), 5: np.array([0, 1, 2]), 6: np.array([4, 8])}
    exact = {4: np.array([[4.0, 3.0, 2.0, 1.0]] * 2), 5: np.array([[3.0, 2.0, 1.0]] * 2), 6: np.zeros((2, 2))}
    lower = {4: np.array([[4.0, 1.0, 3.0, 2.0]] * 2), 5: np.array([[3.0, 2.0, 1.0]] * 2), 6: np.ones((2, 2))}
    rows = precision.compare(exact, lower, neurons)
    table = rows.set_index("layer")
    # Ranks 1 2 3 4 against 1 4 2 3: Spearman's rho is 1 - 6·(0+4+1+1)/(4·15).
    assert table.loc[4, "rank_correlation"] == pytest.approx(1 - 6 * 6 / 60)
    assert table.loc[4, "overlap"] == 0.5  # {9, 3} and {9, 5}
    assert (table.loc[5, "rank_correlation"], table.loc[5, "overlap"]) == (1, 1)
    assert np.isnan(table.loc[6, "rank_correlation"])
    assert (table.loc[-1, "rank_correlation"], table.loc[-1, "overlap"]) == pytest.approx((0.7, 2.5 / 3))
    assert table.loc[-1, "candidates"] == 9
    cells = [rows.assign(dtype="bfloat16", operator="+"), rows.assign(dtype="bfloat16", operator="-", overlap=0.5)]
    (told,) = answer({"precision": pd.concat(cells)}, 50)
    assert told.sentence == (
        "2 train prompts of each cell were also ranked in float32. Spearman's correlation of the mean effects in "
        "bfloat16 with those in float32 is 0.70 in the mean over layers and cells (lowest cell 0.70). Of each "
        "layer's best 2 neurons, 67% are the same (lowest cell 50%)."
    )
    assert told.table["operator"].tolist() == ["+", "-"]
