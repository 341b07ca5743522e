"""What `source` may name: each mistake has its sentence, and a hub model is the files that are read of it."""

import re
import shutil
import socket
from pathlib import Path

import huggingface_hub
import pytest
from configurations import SCHEMA, SHIPPED
from hostile_values import refusal
from hugging_face import DESCRIPTION, INDEX, SHARDS, with_all_files
from huggingface_hub import constants

from form_invariance.model.files import PACKAGED, resolve
from form_invariance.model.folders import files_read
from form_invariance.model.hub import cached
from form_invariance.workflow import config_check

NO_SOURCE = ["gpt2", "owner/name--x", "owner/name@v1", "models/x", "elsewhere/models/fetched", "hf.co/owner"]
COMMIT = "4e20de362430cd3b72f300e6b0f18e50e7166e08"


@pytest.fixture(autouse=True)
def away(tmp_path, monkeypatch):
    """A working folder with two models, an empty hub's cache and no network."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PACKAGED / "embedded-shared", "models/llama-1b")
    Path("models/model.gguf").touch()
    Path("config/wheels").mkdir(parents=True)
    Path("config/wheels/fetched.txt").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(socket.socket, "connect", pytest.fail)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("/no/such/X.GGUF", "the GGUF file '/no/such/X.GGUF' does not exist"),
        ("models/llama-1b/config.json", "is a file; give the folder that contains it"),
        *((source, f"'{source}' does not exist; give a Hugging Face folder") for source in NO_SOURCE),
        ("./models/fetched/", "does not exist; 'make models/fetched' fetches it"),
        ("config/llama-1b", "'config/llama-1b' does not exist, but the folder 'config' does"),
    ],
)
def test_a_wrong_source_is_told_before_any_job(source, said):
    _, text = refusal(resolve, source)
    assert said in text
    _, checked = refusal(config_check.check, {**SHIPPED, "models": {"mine": {"source": source}}}, SCHEMA)
    assert checked == f"config key models.mine.source: {text}"


OTHER_FILES = ["consolidated.safetensors", "original/model.safetensors", "checkpoint-5/config.json", "onnx/x.json"]


@pytest.fixture
def repository(tmp_path):
    """A model with a tokenizer for two versions of transformers, stored whole, and in shards with an index."""
    return with_all_files(PACKAGED / "embedded-shared", tmp_path / "repository")


def snapshot(repository, names):
    """The hub's cache with some files of a repository."""
    model = Path(constants.HF_HUB_CACHE) / "models--owner--name"
    folder = model / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    for name in names:
        shutil.copy(repository / name, folder / name)
    (model / "refs").mkdir()
    for revision in ("main", "v1"):
        (model / "refs" / revision).write_text(COMMIT)
    return folder


@pytest.mark.parametrize("weights", [["model.safetensors"], [INDEX, *SHARDS]])
def test_only_files_that_are_read_are_missed_in_a_snapshot(repository, weights):
    folder = snapshot(repository, [*DESCRIPTION, *weights])
    assert resolve("owner/name") == folder
    assert cached("owner/name", "another") is None
    assert {path.name for path in files_read(folder)} == {*DESCRIPTION, *weights}


PARTS = [(["config.json"], "tokenizer.json"), ([*DESCRIPTION, INDEX, SHARDS[0]], SHARDS[1])]


@pytest.mark.parametrize(("names", "missing"), PARTS)
def test_a_part_of_a_model_without_a_network_is_refused(repository, names, missing):
    snapshot(repository, names)
    expected = rf"model 'owner/name': {missing} is not in the hub's cache and cannot be downloaded \(\w+\); "
    _, text = refusal(resolve, "owner/name")
    assert re.match(expected, text), text
    assert "pickled" not in text


@pytest.mark.parametrize("weights", [["model.safetensors"], SHARDS])
def test_a_download_takes_what_is_read(repository, tmp_path, monkeypatch, weights):
    from huggingface_hub.utils import filter_repo_objects

    names, taken = {*DESCRIPTION, INDEX, *OTHER_FILES, *SHARDS, *weights}, []
    (tmp_path / COMMIT).mkdir()
    snapshot(repository, [*DESCRIPTION, *weights])  # A snapshot that is there may be outdated.

    def download(hub_id, *, revision, allow_patterns):
        assert (hub_id, revision) == ("owner/name", COMMIT if taken else "v1")
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            taken.append(name)
            shutil.copy(repository / name, tmp_path / COMMIT)
        return str(tmp_path / COMMIT)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve("owner/name", "v1") == tmp_path / COMMIT
    assert sorted(taken) == sorted([*DESCRIPTION, INDEX, *weights])


@pytest.mark.parametrize("source", ["./models/llama-1b/", "embedded:embedded-shared", "models/model.gguf"])
def test_a_revision_of_what_has_none_is_refused(source):
    assert resolve(source).exists()
    assert refusal(resolve, source, "main")[1].startswith(f"revision: 'main' is given with {source!r}, ")
