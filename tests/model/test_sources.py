"""What `source` may name: each mistake has its sentence, and a hub model is the files that are read of it."""

import json
import re
import shutil
import socket
from pathlib import Path

import huggingface_hub
import pytest
from configurations import SCHEMA, SHIPPED
from huggingface_hub import constants

from form_invariance.errors import UserError
from form_invariance.model.files import PACKAGED, resolve
from form_invariance.model.folders import files_read
from form_invariance.workflow import config_check

NO_SOURCE = ["gpt2", "owner/name--x", "owner/name.", "owner/name@v1", "models/x", "elsewhere/models/fetched"]
NO_SOURCE += ["hf.co/owner", "https://huggingface.co/owner/name"]
COMMIT = "4e20de362430cd3b72f300e6b0f18e50e7166e08"


@pytest.fixture(autouse=True)
def away(tmp_path, monkeypatch):
    """A working folder with two models, an empty hub's cache and no network."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PACKAGED / "embedded-shared", "models/llama-1b")
    (tmp_path / "models/model.gguf").touch()
    (tmp_path / "config/wheels").mkdir(parents=True)
    (tmp_path / "config/wheels/fetched.txt").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(socket.socket, "connect", pytest.fail)
    return tmp_path


def refusal(source, revision=None):
    with pytest.raises(UserError) as caught:
        resolve(source, revision)
    return str(caught.value)


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
    """By the check of the configuration as by a command."""
    text = refusal(source)
    assert said in text
    assert "\n" not in text
    config = {**SHIPPED, "models": {"mine": {"source": source}}}
    with pytest.raises(UserError) as caught:
        config_check.check(config, SCHEMA)
    assert str(caught.value) == f"config key models.mine.source: {text}"


def snapshot(repository, names, listed=None, hub_id="owner--name"):
    """The hub's cache with some files of a repository, and its list of all files if that is known."""
    model = Path(constants.HF_HUB_CACHE) / f"models--{hub_id}"
    folder = model / "snapshots" / COMMIT
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, folder / name)
    (model / "refs").mkdir()
    (model / "refs/main").write_text(COMMIT)
    if listed is not None:
        from huggingface_hub._tree_cache import TreeCacheEntry, write_tree_cache

        entry = TreeCacheEntry(size=1, blob_id="0" * 40, lfs_sha256=None, lfs_size=None, xet_hash=None)
        write_tree_cache(str(model), COMMIT, dict.fromkeys(listed, entry))
    return folder


DESCRIPTION = ["config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.4.0.0.json"]
OTHER_FILES = ["consolidated.safetensors", "original/model.safetensors", "checkpoint-5/config.json", "onnx/x.json"]
SHARDS = ["model-1-of-2.safetensors", "model-2-of-2.safetensors"]


@pytest.fixture
def repository(tmp_path):
    """A model with a tokenizer for two versions of transformers, stored whole, and in shards with an index."""
    folder = Path(shutil.copytree(PACKAGED / "embedded-shared", tmp_path / "repository"))
    shutil.copy(folder / DESCRIPTION[1], folder / DESCRIPTION[3])
    (folder / DESCRIPTION[2]).write_text(json.dumps({"fast_tokenizer_files": ["tokenizer.4.0.0.json"]}))
    places = {str(number): shard for number, shard in enumerate(SHARDS)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    for shard in SHARDS:
        shutil.copy(folder / "model.safetensors", folder / shard)
    return folder


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_other_files_of_a_model_do_not_make_its_snapshot_incomplete(repository, known, whole):
    """Neither subfolders nor other weights are asked for, whether the list of the files is known or not."""
    names = [*DESCRIPTION, *(["model.safetensors"] if whole else ["model.safetensors.index.json", *SHARDS])]
    folder = snapshot(repository, names, [*names, *OTHER_FILES, *SHARDS] if known else None)
    assert resolve("owner/name") == folder
    assert {path.name for path in files_read(folder)} == set(names)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["config.json"], "tokenizer.json"),
        (DESCRIPTION, "model.safetensors"),
        ([*DESCRIPTION, "model.safetensors.index.json"], SHARDS[0]),
        ([*DESCRIPTION, "model.safetensors.index.json", SHARDS[0]], SHARDS[1]),
    ],
)
def test_a_part_of_a_model_without_a_network(repository, names, missing, known):
    listed = [*DESCRIPTION, *(["model.safetensors"] if missing == "model.safetensors" else names[3:]), *SHARDS]
    snapshot(repository, names, listed if known else None)
    text = refusal("owner/name")
    expected = rf"model 'owner/name': {missing} is not in the hub's cache and cannot be downloaded \(\w+\); "
    assert re.match(expected, text), text
    assert "pickled" not in text


@pytest.mark.parametrize("whole", [True, False])
def test_a_download_takes_what_is_read(repository, tmp_path, monkeypatch, whole):
    from huggingface_hub.utils import filter_repo_objects

    weights = ["model.safetensors"] if whole else SHARDS
    names = [*DESCRIPTION, "model.safetensors.index.json", *OTHER_FILES, *SHARDS, *weights]
    taken = []

    def download(hub_id, *, revision, allow_patterns):
        assert (hub_id, revision) == ("owner/name", COMMIT if taken else "v1")
        for name in filter_repo_objects(dict.fromkeys(names), allow_patterns=allow_patterns):
            taken.append(name)
            (tmp_path / COMMIT).mkdir(exist_ok=True)
            shutil.copy(repository / name, tmp_path / COMMIT)
        return str(tmp_path / COMMIT)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve("owner/name", "v1") == tmp_path / COMMIT
    assert sorted(taken) == sorted([*DESCRIPTION, "model.safetensors.index.json", *weights])


def test_pickled_weights_of_the_hub_are_called_pickled(repository, tmp_path, monkeypatch):
    """Where the hub answers, and it has no other weights."""
    folder = snapshot(repository, DESCRIPTION)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(folder))
    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda *_, **__: [*DESCRIPTION, "pytorch_model.bin"])
    with pytest.raises(UserError, match="pickled"):
        files_read(resolve("owner/name"))


@pytest.mark.parametrize("source", ["./models/llama-1b/", "embedded:embedded-shared", "models/model.gguf"])
def test_a_revision_of_what_has_none(source):
    assert resolve(source).exists()
    assert refusal(source, "main").startswith(f"revision: 'main' is given with {source!r}, ")
