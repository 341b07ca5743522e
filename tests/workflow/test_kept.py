"""The runs of the planted models make what they made before; what must hold on any whole run holds on one."""

import kept
import pandas as pd
import planted_run
import pytest

from form_invariance.experiment.answers import method_of, read_answers


@pytest.mark.parametrize("which", ["planted", "separate"])
def test_a_run_makes_what_it_made(which, tmp_path_factory):
    run = getattr(planted_run, which)(tmp_path_factory)
    kept.check(which, kept.of_files(run.results))


def unordered(table):
    return set(map(frozenset, table[["a", "b"]].to_numpy().tolist()))


def test_no_rate_contains_a_pair_that_ranked_the_neurons(planted):
    """Interventions and specificity are measured on the eval prompts, transfer on pairs of its own."""
    train = unordered(planted.table("dataset").query("split == 'train'"))
    assert len(train) >= planted_run.CONFIG["train_prompts"]
    prompts = planted.table("interventions_prompts").groupby("format")["index"].nunique()
    for name, dataset in planted.table("dataset").groupby("format"):
        pairs = unordered(dataset.query("split == 'eval'"))
        assert not pairs & train
        assert prompts[name] == len(pairs) == planted_run.CONFIG["eval_prompts"]
    moved = unordered(pd.read_parquet(planted.shared("transfer_pairs.parquet")))
    assert moved <= unordered(planted.table("census").query("uniform")) - train


def test_a_question_is_explained_by_the_method_of_its_stage(planted):
    found = {one.question: one.method for one in read_answers(next(planted.results.rglob("answers.json")))[1]}
    assert found["Can the model do the problems?"] == method_of("census")
    assert found["Where can the answer be read?"] == method_of("probe") != method_of("census")
