"""What must hold on a whole run: reads the results of the demo or of the default experiment, where they are."""

import pandas as pd
import pytest
import yaml

from conftest import ROOT

RESULTS = ROOT / "results"
CONFIG = yaml.safe_load((ROOT / "config/config.yaml").read_text())
DEMO = CONFIG | yaml.safe_load((ROOT / "config/demo.yaml").read_text())
_DATASET = RESULTS / "embedded-shared/word/addition/dataset.parquet"
if _DATASET.exists() and (pd.read_parquet(_DATASET)["split"] == "eval").sum() == DEMO["eval_prompts"]:
    CONFIG = DEMO
pytestmark = pytest.mark.skipif(
    not (RESULTS / "report.html").exists(), reason="needs the demo's results (make demo)"
)


def unordered(table):
    return set(map(frozenset, table[["a", "b"]].to_numpy().tolist()))


@pytest.mark.parametrize("operator", CONFIG["operators"])
@pytest.mark.parametrize("model", CONFIG["models"])
def test_no_rate_contains_a_pair_that_ranked_the_neurons(model, operator):
    """Interventions and specificity are measured on the eval prompts, transfer on pairs of its own."""
    folders = {name: RESULTS / model / name / operator for name in CONFIG["formats"]}
    tables = {name: pd.read_parquet(folder / "dataset.parquet") for name, folder in folders.items()}
    train = unordered(pd.concat(tables.values()).query("split == 'train'"))
    assert len(train) >= CONFIG["train_prompts"]
    for name, table in tables.items():
        pairs = unordered(table.query("split == 'eval'"))
        assert not pairs & train, name
        prompts = pd.read_parquet(folders[name] / "interventions_prompts.parquet")
        assert prompts["index"].nunique() == len(pairs) == CONFIG["eval_prompts"]
    moved = pd.read_parquet(RESULTS / model / "shared" / operator / "transfer_pairs.parquet")
    assert not unordered(moved) & train
    censuses = pd.concat(pd.read_parquet(folder / "census.parquet") for folder in folders.values())
    assert unordered(moved) <= unordered(censuses.query("uniform")), "a pair was not drawn uniformly"
