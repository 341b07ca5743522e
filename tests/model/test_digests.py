"""A model's files: the checksum, and damage that the jobs which come later find."""

import hashlib
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
import xxhash
from hugging_face import DESCRIPTION, INDEX, SHARDS, with_all_files
from safetensors.torch import save_file

from form_invariance.errors import UserError
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import ModelOptions
from form_invariance.model import digests as model_digests
from form_invariance.tables.files import write_table

FILES = sorted([*DESCRIPTION, INDEX, *SHARDS])


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """A model in bfloat16 whose weights lie in two files, and with a tokenizer that transformers prefers."""
    made = with_all_files(tiny_folder, tmp_path / "model")
    (made / "model.safetensors").unlink()
    return made


def recorded(folder):
    path = folder.parent / "model_files.parquet"
    write_table(model_digests.record(folder), path, model_digests.MODEL_FILES, {}, {"model": "m"})
    return ModelOptions(model=str(folder), device="cpu", model_files=path)


def flip(path):
    """Another bit in a file, under the old time stamp."""
    status, content = path.stat(), bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_the_record_tells_every_file_that_is_read(folder):
    save_file({"other": torch.zeros(3)}, folder / "consolidated.safetensors")
    table = model_digests.record(folder).set_index("file")
    assert sorted(table.index) == FILES
    for name, row in table.iterrows():
        content = (folder / name).read_bytes()
        assert row["bytes"] == len(content)
        assert row["checksum"] == xxhash.xxh3_128(content).hexdigest()
        assert row["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", FILES)
def test_damage_is_found_before_the_model_is_read(folder, name):
    options = recorded(folder)
    for damage, what in ((flip, "has changed"), (Path.unlink, "is gone")):
        damage(folder / name)
        said = rf"^{folder / name} {what} since {options.model_files} was made, [^\n]*$"
        with pytest.raises(UserError, match=said):
            load_model(options)


def test_a_file_that_comes_later_is_found(folder):
    (folder / "tokenizer_config.json").rename(folder / "away")
    options = recorded(folder)
    (folder / "away").rename(folder / "tokenizer_config.json")
    with pytest.raises(UserError, match=r"tokenizer.*\.json is new since"):
        load_model(options)


def test_what_the_hub_gave_is_checked(folder):
    blobs, snapshot = folder.parent / "blobs", folder.parent / "snapshots/main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        blob = blobs / (sha256 if path.suffix == ".safetensors" else sha256[:40])
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(blob)
    pd.testing.assert_frame_equal(model_digests.record(snapshot), model_digests.record(folder))
    path = snapshot / SHARDS[1]
    flip(path.resolve())
    with pytest.raises(UserError, match=rf"^{path} differs from the hub's file[^\n]*delete {path.resolve()} and"):
        model_digests.record(snapshot)
