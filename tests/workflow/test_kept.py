"""The runs of the planted models make what they made before, from the pairs that they should."""

import kept
import pandas as pd
import planted_run
import pytest


@pytest.mark.parametrize("which", ["planted", "separate"])
def test_a_run_makes_what_it_made(which, tmp_path_factory):
    run = getattr(planted_run, which)(tmp_path_factory)
    kept.check(which, kept.of_files(run.results), 0.02)


def unordered(table):
    return set(map(frozenset, table[["a", "b"]].to_numpy().tolist()))


def test_no_rate_contains_a_pair_that_ranked_the_neurons(planted):
    """Interventions and specificity are measured on the eval prompts, transfer on pairs of its own."""
    formats = planted_run.CONFIG["formats"]
    every = pd.concat(pd.read_parquet(planted.cell(name, "dataset.parquet")) for name in formats)
    train = unordered(every.query("split == 'train'"))
    for name in formats:
        pairs = unordered(pd.read_parquet(planted.cell(name, "dataset.parquet")).query("split == 'eval'"))
        assert not pairs & train, name
        prompts = pd.read_parquet(planted.cell(name, "interventions_prompts.parquet"))
        assert prompts["index"].nunique() == len(pairs) == planted_run.CONFIG["eval_prompts"]
    moved = unordered(pd.read_parquet(planted.shared("transfer_pairs.parquet")))
    assert not moved & train
    censuses = pd.concat(pd.read_parquet(planted.cell(name, "census.parquet")) for name in formats)
    assert moved <= unordered(censuses.query("uniform")), "a pair was not drawn uniformly"
