"""What a run knows of the user's files."""

import hashlib
import os

import pytest

from form_invariance.errors import UserError
from form_invariance.workflow import file_digests, records


@pytest.fixture
def config(tmp_path, monkeypatch, packaged_copy):
    monkeypatch.chdir(tmp_path)
    for name in ("table.csv", "text.txt"):
        (tmp_path / name).write_text(name)
    return {
        "results": "results",
        "operators": {"addition": "a + b", "tens": {"expression": "a + b"}, "plural": {"table": "table.csv"}},
        "models": {"mine": {"source": str(packaged_copy)}, "hub": {"source": "owner/name"}},
        "specificity_text": "text.txt",
    }


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_digests_are_those_of_all_files_that_a_configuration_names(config, tmp_path, packaged_copy):
    names = ["table.csv", "text.txt", *map(str, packaged_copy.iterdir())]
    found = file_digests.digests(config, {})
    assert found == {name: sha256(tmp_path / name) for name in names if not name.endswith(".md")}


def test_another_content_of_the_same_length_and_times_is_seen(config, tmp_path):
    before = file_digests.digests(config, {})
    stamps = os.stat("table.csv")
    (tmp_path / "table.csv").write_text("other.csv")
    os.utime("table.csv", ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    after = file_digests.digests(config, {})
    assert {name for name in before if before[name] != after[name]} == {"table.csv"}
    assert after["table.csv"] == sha256(tmp_path / "table.csv")


def test_a_file_is_read_once(config, tmp_path, monkeypatch):
    first = file_digests.digests(config, {})
    read, digest = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: [read.append(file.name), digest(file, name)][1])
    assert file_digests.digests(config, {}) == first
    assert not read
    (tmp_path / "text.txt").touch()
    assert file_digests.digests(config, {}) == first
    assert read == ["text.txt"]
    for damaged in ("{", "[]", '{"table.csv": 5, "text.txt": ["x"]}'):
        file_digests._KEPT.write_text(damaged)
        assert file_digests.digests(config, {}) == first


def test_in_the_jobs_of_a_run_files_have_the_digests_with_which_it_began(config, tmp_path):
    first = file_digests.digests(config, records.begun())
    records.begin(config, first)
    (tmp_path / "table.csv").write_text("another")
    assert file_digests.digests(config, {}) != first
    assert file_digests.digests(config, records.begun()) == first


def test_a_killed_run_remembers_the_configuration_of_older_files(config, tmp_path):
    files, other = file_digests.digests(config, {}), {**config, "seed": 2}
    records.begin(config, files)
    records.end(config, files)
    records.begin(other, files)
    (tmp_path / "results/mine/table.parquet").touch()
    with pytest.raises(UserError, match=r"^results/mine has files of several configurations"):
        records.check(other, files)


@pytest.mark.parametrize("name", ["table.csv", "text.txt", "config.json"])
def test_results_of_other_files_without_records_are_refused(config, tmp_path, packaged_copy, name):
    files = file_digests.digests(config, {})
    records.begin(config, files)
    records.end(config, files)
    records.check(config, files)
    path = packaged_copy / name if name == "config.json" else tmp_path / name
    path.write_text(path.read_text() + "\n")
    (tmp_path / "results/mine/table.parquet").touch()
    with pytest.raises(UserError, match=rf"^results/mine was made with sha256 of {name}: "):
        records.check(config, file_digests.digests(config, {}))
