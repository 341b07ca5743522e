"""What must change nothing: the order of prompts, the size of batches."""

import shutil

import numpy as np
import pytest
from replayed_run import run

from form_invariance.model import memory
from form_invariance.model.files import PACKAGED
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import provenance_of, read_table, read_tensors, write_table

MODEL = PACKAGED / "embedded-shared"
TEMPLATES = {"symbolic": "{a}-{b}=", "code": "a = {a}\nb = {b}\nprint(a - b)  # "}
CLOSE = {"rtol": 2e-4, "atol": 1e-5}  # float32 effects agree with hooked passes to the same


def rank(folder, model):
    """Attribution, exact patching and the ranking of the dataset in a folder."""
    names = ("dataset", "corrupt", "attribution", "ranking")
    dataset, corrupt, attribution, ranking = (folder / f"{name}.parquet" for name in names)
    effects = folder / "effects.safetensors"
    train = ("--model", model, "--late-from=half_depth", "--dataset", dataset, "--corrupt-table", corrupt)
    run("attribution", *train, "--candidates", 40, "--output", attribution)
    run("patching", *train, "--attribution", attribution, "--output", effects, "--ranking-output", ranking)
    return folder


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The ranking of a few prompts in two formats."""
    root = tmp_path_factory.mktemp("cells")
    for name, template in TEMPLATES.items():
        census, dataset, corrupt = (root / name / f"{table}.parquet" for table in ("census", "dataset", "corrupt"))
        asked = ("--operator", "subtraction", "--expression", "a - b", f"--template={template}", "--pairs", 40)
        limits = ("--operand-min=6", "--operand-max=999", "--answer-min=3", "--answer-max=999", "--seed=0")
        run("census", "--model", MODEL, "--format", name, *asked, *limits, "--output", census)
        sizes = ("--train=9", "--eval=2", "--corrupt-seeds=2", "--seed=0")
        run("dataset", "--census", census, *sizes, "--output", dataset, "--corrupt-output", corrupt)
        rank(root / name, MODEL)
    return root


@pytest.fixture
def copied(cells, tmp_path):
    """A folder with the dataset of one cell, to rank again."""
    for name in ("dataset", "corrupt"):
        shutil.copy(cells / f"symbolic/{name}.parquet", tmp_path)
    return tmp_path


def same_ranking(one, other):
    """Whether two rankings have equal numbers within rounding, and the same order of distinct scores."""
    one, other = (read_table(folder / "ranking.parquet", RANKING) for folder in (one, other))
    pair = one.merge(other, on=["layer", "neuron"], suffixes=("", "_other"), validate="one_to_one")
    assert len(pair) == len(one) == len(other)
    for column in ("ie_mean", "ie_std", "ie_median", "ie_trimmed_mean", "probability_change", "attribution_score"):
        np.testing.assert_allclose(pair[column], pair[f"{column}_other"], **CLOSE)
    for _, rows in pair.groupby("layer"):
        rows = rows.sort_values("rank")
        gaps = -np.diff(rows["ie_mean"])
        distinct = gaps > 2 * (CLOSE["atol"] + CLOSE["rtol"] * rows["ie_mean"].abs().to_numpy()[1:])
        ordered = np.diff(rows["rank_other"]) > 0
        assert ordered[distinct].all()
        assert distinct.mean() > 0.5, "else the order says little"


def test_order_of_prompts(cells, copied):
    train = list(range(9))
    order = dict(zip(train, np.random.default_rng(0).permutation(9).tolist(), strict=True))
    for name, schema in (("dataset", DATASET), ("corrupt", CORRUPT)):
        path = copied / f"{name}.parquet"
        table = read_table(path, schema)
        moved = table["split"] == "train" if name == "dataset" else np.ones(len(table), dtype=bool)
        table.loc[moved, "index"] = table.loc[moved, "index"].map(order)
        write_table(table, path, schema, provenance_of(path), provenance_of(path)["keys"])
    same_ranking(cells / "symbolic", rank(copied, MODEL))
    before, after = (
        read_tensors(f / "effects.safetensors", "indirect_effects")[0] for f in (cells / "symbolic", copied)
    )
    places = [order[row] for row in train]
    for layer in range(3, 6):
        np.testing.assert_allclose(after[f"effects.{layer}"][:, places], before[f"effects.{layer}"], **CLOSE)


def test_size_of_batches(cells, copied, monkeypatch):
    monkeypatch.setattr(memory, "_CPU_ROWS", (7, 7))
    same_ranking(cells / "symbolic", rank(copied, MODEL))
