import os
import signal
from contextlib import nullcontext
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from damages import damages
from hostile_values import refusal
from safetensors import safe_open
from safetensors.torch import save_file

from form_invariance.errors import UserError
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.tables import files as tables_io
from form_invariance.tables import progress
from form_invariance.tables.keys import by_key, common_keys, matching_cells

KEYS = {"model": "m", "format": "code", "operator": "sum"}
TABLE = pd.DataFrame({"k": [10, 10], "layer": [3, 4], "neuron": [7, 8]})


def write(path, table=TABLE, keys=KEYS):
    tables_io.write_table(table, path, CIRCUIT, {"seed": 5}, keys)


def test_a_table_comes_back_with_its_provenance_and_meanings(tmp_path):
    path = tmp_path / "deep/circuit.parquet"
    write(path, TABLE[["neuron", "k", "layer"]])
    pd.testing.assert_frame_equal(tables_io.read_table(path, CIRCUIT), TABLE)
    provenance = tables_io.provenance_of(path)
    assert (provenance["seed"], provenance["table"]) == (5, "circuit")
    assert b"layer" in pq.read_schema(path).field("layer").metadata[b"meaning"]
    assert [p.name for p in path.parent.iterdir()] == ["circuit.parquet"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: write(path), "is not a table of the kind 'overlap': column '.*' is missing"),
        (lambda path: None, "does not exist"),
        (lambda path: write(path) or path.write_bytes(path.read_bytes()[:-20]), "cannot be read as Parquet"),
        (lambda path: TABLE.to_parquet(path), "its checksum does not match"),
    ],
)
def test_another_table_is_refused(tmp_path, make, said):
    path = tmp_path / "x.parquet"
    make(path)
    with pytest.raises(UserError, match=f"^{path} .*{said}"):
        tables_io.read_table(path, OVERLAP if "overlap" in said else CIRCUIT)


def test_wrong_columns_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="columns"):
        write(tmp_path / "x.parquet", TABLE.drop(columns="k"))
    assert not (tmp_path / "x.parquet").exists()


WRITERS = [
    lambda path: tables_io.write_text(path, "new"),
    lambda path: tables_io.write_tensors({"x": np.arange(3)}, path, "kind", {}),
    write,
]


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
    for again in WRITERS:
        path.write_text("old")
        with path.open() as before:
            again(path)
            assert before.read() == "old", "who reads the file meanwhile has all of the old one"
            assert path.stat().st_mode == os.fstat(before.fileno()).st_mode
        assert path.read_bytes() != b"old"


def test_the_next_writer_deletes_what_a_killed_writer_left(tmp_path):
    path, other = tmp_path / "file.txt", tmp_path / ".file.txt.old.12345678.part.txt"

    def killed(to):
        to.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(2):
        process = get_context("fork").Process(target=tables_io.write_atomically, args=(path, killed))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        (left,) = tmp_path.iterdir()
        assert left != path
    other.write_text("of file.txt.old")
    tables_io.write_atomically(path, lambda to: to.write_text("x"))
    assert path.read_text() == "x"
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


@pytest.mark.parametrize("first", [True, False])
def test_of_two_writers_at_once_one_writes_and_the_other_is_told(tmp_path, first):
    """Another process writes and is done while this one does, after or before this one's own text."""
    path = tmp_path / "file.txt"

    def writer(to):
        if first:
            to.write_text("first")
        tables_io.write_atomically(path, lambda to: to.write_text("second"))
        if not first:
            to.write_text("first")

    told = pytest.raises(UserError, match=r"another process writes .*/file\.txt at the same time")
    with told if first else nullcontext():
        tables_io.write_atomically(path, writer)
    assert path.read_text() == ("second" if first else "first")
    assert [*tmp_path.iterdir()] == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "parent").write_text("a file")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "parent/file.txt", tmp_path / "folder", Path("/proc/file.txt")):
        with pytest.raises(UserError, match=rf"^{path} cannot be written: .*; fix this, then run again$"):
            tables_io.write_atomically(path, lambda to: to.write_text("x"))
    assert {path.name for path in tmp_path.rglob("*")} == {"parent", "folder"}


def check_damaged(path, read, same):
    """A file that is damaged in 200 ways is refused with a sentence that names it, or is read as it was."""
    refused = 0
    for damaged in islice(damages(path.read_bytes(), np.random.default_rng(0)), 200):
        path.write_bytes(damaged)
        found, sentence = refusal(read)
        refused += bool(sentence)
        assert str(path) in sentence if sentence else same(found) is None
    assert refused > 150


def test_a_damaged_table_is_refused_by_name_or_still_whole(tmp_path):
    rng, rows, path = np.random.default_rng(0), 200, tmp_path / "x.parquet"
    values = {
        "int64": lambda: rng.integers(0, 9, rows),
        "float64": lambda: np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
        "bool": lambda: rng.random(rows) < 0.5,
        "string": lambda: rng.choice(["matched", "random", "é"], rows),
    }
    frame = pd.DataFrame({name: values[column.type]() for name, column in OVERLAP.columns.items()})
    tables_io.write_table(frame, path, OVERLAP, {"seed": 1}, KEYS)
    read = partial(tables_io.read_table, path, OVERLAP)
    pd.testing.assert_frame_equal(read(), frame, check_dtype=False)
    whole = pq.read_table(path)
    for name in frame:
        turned = whole[name].take(np.arange(1, rows + 1) % rows)
        pq.write_table(whole.set_column(whole.schema.get_field_index(name), whole.field(name), turned), path)
        assert "its checksum does not match" in refusal(read)[1], name
    pq.write_table(whole, path)
    check_damaged(path, read, partial(pd.testing.assert_frame_equal, read()))


def test_damaged_tensors_are_refused_by_name_or_still_whole(tmp_path):
    path = tmp_path / "x.safetensors"
    effects = torch.rand(50, 3, generator=torch.Generator().manual_seed(0)).T
    tensors = {"codes": torch.arange(9, dtype=torch.uint8), "effects": effects, "no": torch.zeros(0)}
    tables_io.write_tensors(tensors, path, "mean_cache", {"seed": 1})

    def same(found):
        assert found[1]["seed"] == 1
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(found[0][name], tensor.numpy())

    same(tables_io.read_tensors(path, "mean_cache"))
    with pytest.raises(UserError, match="contains mean_cache, not indirect_effects"):
        tables_io.read_tensors(path, "indirect_effects")
    read, metadata = partial(tables_io.read_tensors, path, "mean_cache"), safe_open(path, "numpy").metadata()
    check_damaged(path, read, same)
    for other in (effects.reshape(50, 3), effects.contiguous().view(torch.int32)):  # the same bytes
        save_file({**tensors, "effects": other.contiguous()}, path, metadata)
        assert "its checksum does not match" in refusal(read)[1]


def test_files_carry_their_keys(tmp_path):
    paths = [tmp_path / name for name in ("code.parquet", "word.parquet", "means.safetensors")]
    for path, form in zip(paths[:2], ("code", "word"), strict=True):
        write(path, TABLE if form == "code" else TABLE.iloc[:0], {**KEYS, "format": form})
    tables_io.write_tensors({"a": torch.zeros(1)}, paths[2], "mean_cache", {}, KEYS)
    whole = pd.read_parquet(paths[0])
    assert whole[["model", "operator"]].drop_duplicates().to_numpy().tolist() == [["m", "sum"]]
    assert tables_io.read_table(paths[0], CIRCUIT).equals(TABLE)
    assert by_key(paths[2:], "format") == {"code": paths[2]}
    assert common_keys(*paths) == {"model": "m", "operator": "sum"}
    with pytest.raises(UserError, match=f"{paths[1]} and {paths[0]} are both of m/sum; give one file of each"):
        by_key(paths[:2], "model", "operator")
    with pytest.raises(UserError, match=f"{paths[0]} does not say its format"):
        by_key(paths, "format")
    with pytest.raises(UserError, match=f"the files that {paths[0]} is made from are not all of one operator"):
        write(paths[0], keys={"model": "m"})


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


def test_progress_has_the_rate_of_this_run_and_the_time_that_is_left(monkeypatch, capsys):
    times = iter([0.0, 2.0, 3.0, 10.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    work = progress.Progress(40, "prompts", interval=2)
    work.resume(10)
    for amount in (10, 1, 19):
        work.add(amount, "x")
    first, last = capsys.readouterr().err.splitlines()
    assert first == "20 of 40 prompts, 5.00 per second, 4 s left, x"
    assert last == "40 of 40 prompts, 3.00 per second, 0 s left, x"
