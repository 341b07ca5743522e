import signal
import subprocess
import sys
from itertools import islice

import numpy as np
import pandas as pd
import pytest
import torch
from damages import damages

from form_invariance.errors import UserError
from form_invariance.experiment.late_layers import first_late_layer
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables import files as tables_io
from form_invariance.tables.keys import by_key, common_keys, matching_cells

KEYS = {"model": "m", "format": "code", "operator": "sum"}


def circuit():
    return pd.DataFrame({"k": [10, 10], "layer": [3, 4], "neuron": [7, 8]})


def test_a_table_comes_back_with_its_provenance_and_meanings(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "deep/circuit.parquet"
    tables_io.write_table(circuit()[["neuron", "k", "layer"]], path, CIRCUIT, {"seed": 5}, KEYS)
    pd.testing.assert_frame_equal(tables_io.read_table(path, CIRCUIT), circuit())
    provenance = tables_io.provenance_of(path)
    assert provenance["seed"] == 5
    assert provenance["table"] == "circuit"
    assert b"layer" in pq.read_schema(path).field("layer").metadata[b"meaning"]
    assert [p.name for p in path.parent.iterdir()] == ["circuit.parquet"]


def test_wrong_columns_and_wrong_kinds(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(ValueError, match="columns"):
        tables_io.write_table(circuit().drop(columns="k"), path, CIRCUIT, {}, KEYS)
    assert not path.exists()
    tables_io.write_table(circuit(), path, CIRCUIT, {}, KEYS)
    with pytest.raises(UserError, match=r"is not a table of the kind 'overlap': column '.*' is missing"):
        tables_io.read_table(path, OVERLAP)
    with pytest.raises(UserError, match="does not exist"):
        tables_io.read_table(tmp_path / "nothing", CIRCUIT)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        tables_io.read_table(path, CIRCUIT)
    circuit().to_parquet(path)
    with pytest.raises(UserError, match="its checksum does not match"):
        tables_io.read_table(path, CIRCUIT)


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(to):
        to.write_text("half")
        raise OSError("disk full")

    with pytest.raises(UserError, match="file cannot be written: disk full"):
        tables_io.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1
    with path.open() as before:
        tables_io.write_atomically(path, lambda to: to.write_text("new"))
        assert before.read() == "old", "who reads the file meanwhile has all of the old one"


def test_the_next_writer_deletes_what_a_killed_writer_left(tmp_path):
    path, other = tmp_path / "file.txt", tmp_path / ".file.txt.old.12345678.part.txt"
    code = f"""
import os, signal
from pathlib import Path
from form_invariance.tables.files import write_atomically
write_atomically(Path({str(path)!r}), lambda to: (to.write_text("half"), os.kill(os.getpid(), signal.SIGKILL)))
"""
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
        assert not path.exists()
        assert len(list(tmp_path.iterdir())) == 1
    other.write_text("of file.txt.old")
    tables_io.write_atomically(path, lambda to: to.write_text("x"))
    assert path.read_text() == "x"
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


def test_of_two_writers_at_once_one_writes_and_the_other_is_told(tmp_path):
    path = tmp_path / "file.txt"

    def writer(first):
        def slow(to):
            if first:
                to.write_text("first")
            tables_io.write_atomically(path, lambda to: to.write_text("second"))
            if not first:
                to.write_text("first")

        return slow

    tables_io.write_atomically(path, writer(first=False))
    assert path.read_text() == "first"
    with pytest.raises(UserError, match=r"another process writes .*/file\.txt at the same time"):
        tables_io.write_atomically(path, writer(first=True))
    assert path.read_text() == "second"
    assert [one.name for one in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("blocked", ["folder", "parent"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, blocked):
    path = tmp_path / "parent/file.txt"
    if blocked == "folder":
        path.mkdir(parents=True)
    else:
        path.parent.write_text("a file")
    with pytest.raises(UserError, match=rf"^{path} cannot be written: .*; fix this, then run again$"):
        tables_io.write_atomically(path, lambda to: to.write_text("x"))
    assert len(list(tmp_path.rglob("*"))) == (2 if blocked == "folder" else 1)


def test_tensors_come_back(tmp_path):
    path = tmp_path / "x.safetensors"
    tables_io.write_tensors({"a": torch.arange(4).reshape(2, 2).T}, path, "mean_cache", {"seed": 1})
    tensors, provenance = tables_io.read_tensors(path, "mean_cache")
    np.testing.assert_array_equal(tensors["a"], [[0, 2], [1, 3]])
    assert provenance["seed"] == 1
    with pytest.raises(UserError, match="contains mean_cache, not indirect_effects"):
        tables_io.read_tensors(path, "indirect_effects")
    with pytest.raises(UserError, match="does not exist"):
        tables_io.read_tensors(tmp_path / "no", "mean_cache")
    path.write_bytes(b"\0" * 100)
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        tables_io.read_tensors(path, "mean_cache")


def read_damaged(path, rng, read):
    """Damage a file 200 times; yields what was read where it was not refused with a sentence that names it."""
    sentences = []
    for damaged in islice(damages(path.read_bytes(), rng), 200):
        path.write_bytes(damaged)
        try:
            found = read()
        except UserError as error:
            sentences.append(str(error))
        else:
            yield found
    assert len(sentences) > 150
    assert all(str(path) in sentence and "\n" not in sentence for sentence in sentences)


def test_a_damaged_table_is_refused_by_name_or_still_whole(tmp_path):
    rng = np.random.default_rng(0)
    rows = 200
    values = {
        "int64": lambda: rng.integers(0, 9, rows),
        "float64": lambda: np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
        "bool": lambda: rng.random(rows) < 0.5,
        "string": lambda: rng.choice(["matched", "random", "é"], rows),
    }
    frame = pd.DataFrame({name: values[column.type]() for name, column in TRANSFER.columns.items()})
    path = tmp_path / "x.parquet"
    tables_io.write_table(frame, path, TRANSFER, {"seed": 1}, KEYS)
    whole = tables_io.read_table(path, TRANSFER)
    pd.testing.assert_frame_equal(whole, frame, check_dtype=False)
    for found in read_damaged(path, rng, lambda: tables_io.read_table(path, TRANSFER)):
        pd.testing.assert_frame_equal(found, whole)


def test_damaged_tensors_are_refused_by_name_or_still_whole(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "x.safetensors"
    tensors = {
        "codes": torch.arange(200, dtype=torch.uint8),
        "effects": torch.randn(3, 50),
        "none": torch.zeros(0),
    }
    tables_io.write_tensors(tensors, path, "mean_cache", {"seed": 1})
    for found, provenance in read_damaged(path, rng, lambda: tables_io.read_tensors(path, "mean_cache")):
        assert provenance["seed"] == 1
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(found[name], tensor.numpy())


def test_files_carry_their_keys(tmp_path):
    paths = [tmp_path / name for name in ("code.parquet", "word.parquet", "means.safetensors")]
    for path, form in zip(paths[:2], ("code", "word"), strict=True):
        empty = pd.DataFrame({name: pd.Series(dtype="int64") for name in CIRCUIT.columns})
        tables_io.write_table(circuit() if form == "code" else empty, path, CIRCUIT, {}, {**KEYS, "format": form})
    tables_io.write_tensors({"a": torch.zeros(1)}, paths[2], "mean_cache", {}, KEYS)
    whole = pd.read_parquet(paths[0])
    assert list(whole) == ["model", "operator", *CIRCUIT.columns]
    assert whole[["model", "operator"]].drop_duplicates().to_numpy().tolist() == [["m", "sum"]]
    assert tables_io.read_table(paths[0], CIRCUIT).equals(circuit())
    assert by_key(paths[2:], "format") == {"code": paths[2]}
    assert common_keys(*paths) == {"model": "m", "operator": "sum"}
    with pytest.raises(UserError, match=f"{paths[1]} and {paths[0]} are both of m/sum; give one file of each"):
        by_key(paths[:2], "model", "operator")
    with pytest.raises(UserError, match=f"{paths[0]} does not say its format"):
        by_key(paths, "format")
    with pytest.raises(KeyError, match="operator"):
        tables_io.write_table(circuit(), paths[0], CIRCUIT, {}, {"model": "m"})


def test_options_of_files_have_the_same_cells(tmp_path):
    paths = {}
    for form in ("code", "word", "other"):
        paths[form] = tmp_path / f"{form}.safetensors"
        tables_io.write_tensors({"a": torch.zeros(1)}, paths[form], "x", {}, {**KEYS, "format": form})
    one, two = matching_cells(first=[paths["code"], paths["word"]], second=[paths["word"], paths["code"]])
    assert one == two == {("code", "sum"): paths["code"], ("word", "sum"): paths["word"]}
    for wrong in (["code"], ["code", "other"], ["code", "word", "other"]):
        with pytest.raises(UserError, match="--of-two must have a file for each cell of --of-one and no other"):
            matching_cells(of_one=[paths["code"], paths["word"]], of_two=[paths[form] for form in wrong])


@pytest.mark.parametrize(("text", "layer"), [("half_depth", 3), ("0", 0), ("5", 5)])
def test_first_late_layer(text, layer):
    assert first_late_layer(text, 6) == layer
