"""The ranking by mean exact effect: by hand."""

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.stages.patching.ranking import rank_cell
from form_invariance.statistics import trimmed_mean


def test_ranking_table():
    effects = np.zeros((2, 10, 3), dtype=np.float32)
    effects[0, :, 0], effects[0, :, 2] = 1, np.arange(10)
    effects *= 2  # the mean over both draws is that of the first, doubled, and zeros
    tensors = {"effects.6": effects, "candidates.6": np.array([2, 5, 8])}
    stage1 = pd.DataFrame({"layer": 6, "neuron": [2, 5, 8], "score": [0.1, 0.2, 0.3], "rank": [3, 2, 1]})
    table = rank_cell(tensors, stage1).set_index("neuron")
    assert table["rank"].to_dict() == {8: 1, 2: 2, 5: 3}
    assert table.loc[8, "ie_mean"] == 4.5
    assert table.loc[8, "ie_median"] == 4.5
    assert table.loc[8, "ie_std"] == pytest.approx(np.arange(10).std(ddof=1))
    assert table.loc[8, "attribution_rank"] == 1
    assert trimmed_mean(np.array([[100.0], *[[1.0]] * 8, [-50.0]])) == pytest.approx(1.0)
    with pytest.raises(UserError, match="attribution table has not"):
        rank_cell(tensors, stage1.iloc[:2])
