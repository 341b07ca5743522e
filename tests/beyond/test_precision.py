"""The comparison of precisions."""

import numpy as np
import pandas as pd
import pytest
from small_cells import MODEL, attribute, write_prompts

from form_invariance.beyond.precision import compute as precision
from form_invariance.cli import main


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A small cell up to its attribution table, and the command of its patching."""
    folder = tmp_path_factory.mktemp("cell")
    files = write_prompts(folder, train=6, draws=2)
    attribute(files, candidates=9)
    patching = [
        *("patching", *MODEL, "--dataset", files["dataset"], "--corrupt-table", files["corrupt"]),
        *("--attribution", files["attribution"], "--late-from", "half_depth"),
    ]
    return folder, patching


def test_correlation_and_overlap_by_hand(monkeypatch):
    monkeypatch.setattr(precision, "TOP", 2)
    neurons = {4: np.array([9, 3, 5, 7]), 5: np.array([0, 1, 2])}
    exact = {4: np.array([[4.0, 3.0, 2.0, 1.0]] * 2), 5: np.array([[3.0, 2.0, 1.0]] * 2)}
    lower = {4: np.array([[4.0, 1.0, 3.0, 2.0]] * 2), 5: np.array([[3.0, 2.0, 1.0]] * 2)}
    table = precision.compare(exact, lower, neurons).set_index("layer")
    # Ranks 1 2 3 4 against 1 4 2 3: Spearman's rho is 1 - 6·(0+4+1+1)/(4·15).
    assert table.loc[4, "rank_correlation"] == pytest.approx(1 - 6 * 6 / 60)
    assert table.loc[4, "overlap"] == 0.5  # {9, 3} and {9, 5}
    assert (table.loc[5, "rank_correlation"], table.loc[5, "overlap"]) == (1, 1)
    assert table.loc[-1, "overlap"] == 0.75
    assert table.loc[-1, "candidates"] == 7


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_command(cell, tmp_path, dtype, monkeypatch):
    folder, patching = cell
    names = {"--dataset": "dataset", "--corrupt-table": "corrupt", "--attribution": "attribution"}
    tables = [word for option, name in names.items() for word in (option, f"{folder / name}.parquet")]
    compared = []
    compare = precision.compare
    monkeypatch.setattr(precision, "compare", lambda *given: compared.append(given) or compare(*given))
    words = [
        "precision",
        *patching[1 : patching.index("--dataset")],
        *("--late-from", patching[patching.index("--late-from") + 1]),
        *tables,
        "--dtype",
        dtype,
        "--prompts",
        "4",
        "--output",
        str(tmp_path / "x.parquet"),
    ]
    assert main(words) == 0
    table = pd.read_parquet(tmp_path / "x.parquet")
    assert table["layer"].tolist() == [-1, 3, 4, 5]
    assert (table["prompts"] == 4).all()
    assert (table["dtype"] == dtype).all()
    (exact, lower, _), errors = compared[0], []
    for layer, values in exact.items():
        errors.append(np.abs(lower[layer] - values).max() / np.abs(values).max())
    if dtype == "float32":
        assert (table[["rank_correlation", "overlap"]] == 1).all().all()
        assert errors == [0, 0, 0]
    else:
        assert table["rank_correlation"].iloc[0] > 0.9
        assert min(errors) > 1e-5, "bfloat16 did not run"
