import numpy as np
import pandas as pd
import pytest

from form_invariance.stages.patching.ranking import CHECKED, rank_cell, recall_of_attribution


def test_the_ranking_is_by_mean_effects():
    effects = np.zeros((2, 10, 3), dtype=np.float32)
    effects[0, :, 0], effects[0, :, 2] = 1, np.arange(10) ** 2
    effects *= 2  # the mean over both draws is that of the first, doubled, and zeros
    tensors = {"effects.6": effects, "candidates.6": np.array([2, 5, 8])}
    tensors["probability_change.6"] = np.array([0.5, 0.25, -0.125])
    stage1 = pd.DataFrame({"layer": 6, "neuron": [2, 5, 8], "score": [0.1, 0.2, 0.3], "rank": [3, 2, 1]})
    table = rank_cell(tensors, stage1).set_index("neuron")
    assert table["rank"].to_dict() == {8: 1, 2: 2, 5: 3}
    columns = ["ie_mean", "ie_std", "attribution_rank", "probability_change"]
    std = (np.arange(10) ** 2).std(ddof=1)
    assert table.loc[8, columns].tolist() == pytest.approx([28.5, std, 1, -0.125])


def test_recall_of_the_exact_best_by_counting():
    rng, width, layers = np.random.default_rng(0), 200, (3, 4)
    effects = {layer: rng.normal(size=(2, 5, width)) for layer in layers}
    effects[4][..., 30:] = 0  # fewer neurons than are checked have an effect
    tensors = {f"effects.{layer}": values for layer, values in effects.items()}
    for layer in layers:
        tensors |= {f"candidates.{layer}": np.arange(width), f"probability_change.{layer}": np.zeros(width)}
    scores = {layer: rng.normal(size=width) for layer in layers}
    every = [pd.DataFrame({"layer": layer, "neuron": range(width), "score": scores[layer]}) for layer in layers]
    stage1 = pd.concat(one.assign(rank=one["score"].rank(ascending=False)) for one in every)
    shares = []
    for layer in layers:
        means = effects[layer].mean((0, 1))
        best = {neuron for neuron in np.argsort(-means)[:CHECKED] if means[neuron] != 0}
        shares.append(len(best & {*np.argsort(-scores[layer])[:CHECKED]}) / len(best))
    assert 0 < shares[0] < 1
    ranking = rank_cell(tensors, stage1)
    assert recall_of_attribution(ranking, stage1) == pytest.approx(np.mean(shares))
    assert recall_of_attribution(ranking[1:], stage1) is None, "a neuron was not patched"
    assert recall_of_attribution(ranking.assign(ie_mean=0.0), stage1) is None
