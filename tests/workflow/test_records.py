"""Results without Snakemake's records: a changed setting is never taken for the one that made them."""

import base64
import json
import re
import shutil

import pytest
import yaml
from altered_source import altered
from configurations import with_value
from hostile_values import refusal
from stub_checkout import done, finished_copy, pending, snakemake

from form_invariance.workflow import config_check, file_digests, records, source_digest

pytestmark = pytest.mark.slow

MODEL = "results/embedded-shared"
CHANGES = {"census_pairs": 77, "seed": 5, "k": [3, 50], "models/embedded-shared/dtype": "bfloat16"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of its own: without records its time stamps count, which other tests may have changed."""
    return finished_copy(tmp_path_factory, "records")


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of a finished run, with its time stamps, but without Snakemake's records."""
    shutil.copytree(finished, tmp_path / "copy", ignore=shutil.ignore_patterns(".snakemake"), symlinks=True)
    return tmp_path / "copy"


def change(checkout, key, value):
    """Change a key of the configuration; returns the text before."""
    path = checkout / "config/config.yaml"
    before = path.read_text()
    path.write_text(yaml.safe_dump(with_value(yaml.safe_load(before), key, value), sort_keys=False))
    return before


def refused(checkout, *words):
    status, out = snakemake(checkout, "-n", *words)
    assert status != 0, out
    assert "Traceback" not in out
    return out


def test_an_unchanged_copy_has_nothing_to_do(copied):
    assert pending(copied) == {}


def said_of(checkout, monkeypatch):
    """The refusal of the function that Snakemake calls first in a checkout."""
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(source_digest, "_ROOT", checkout / "src/form_invariance")
    path = checkout / "config/config.yaml"
    config = config_check.read(config_check.load(path), path.parent)
    return refusal(records.check, config, file_digests.digests(config, {}))[1]


def test_a_changed_setting_is_refused(copied, monkeypatch):
    assert said_of(copied, monkeypatch) == ""
    for key, value in CHANGES.items():
        before = change(copied, key, value)
        said = said_of(copied, monkeypatch)
        assert f"{MODEL} was made with {'model' if '/' in key else key}: " in said
        (copied / "config/config.yaml").write_text(before)


def test_a_changed_source_is_refused(copied):
    with (copied / "src/form_invariance/stages/census/command.py").open("a") as file:
        file.write("CHANGED = True\n")
    assert "was made with source: " in refused(copied)


def test_triggers_that_keep_stale_results_are_refused(copied):
    (copied / "mine").mkdir()
    (copied / "mine/config.yaml").write_text("rerun-triggers: [mtime, input, code]\n")
    for words, missing in (
        (["--rerun-triggers", "mtime"], "code, input, params"),
        (["--profile", "mine"], "params"),
    ):
        assert f": without {missing} this run keeps results of other settings" in refused(copied, *words)
    done(copied, "-n", "--rerun-triggers", "mtime", "input", "code", "params")
    done(copied, "--list-rules")


def test_touch_accepts_another_source_but_no_other_setting(whole):
    before, kept = change(whole, "seed", 5), (whole / MODEL / "configuration.json").read_text()
    status, out = snakemake(whole, "--touch", "--forceall")
    assert status != 0
    assert "error: --touch would keep results of other settings: " in out
    assert f"{MODEL} was made with seed: 0 (now 5); run without it" in out
    assert (whole / MODEL / "configuration.json").read_text() == kept
    (whole / "config/config.yaml").write_text(before)
    path = whole / "src/form_invariance/stages/census/command.py"
    path.write_text(altered(path.read_text(), "census"))
    assert pending(whole) != {}
    done(whole, "--touch")
    assert pending(whole) == {}


@pytest.fixture
def whole(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "whole", symlinks=True)


@pytest.mark.nightly
def test_records_that_are_lost_in_part_hide_no_change(whole):
    files = (path for path in (whole / ".snakemake/metadata").rglob("*") if path.is_file())
    census = b"word/addition/census.parquet"
    next(path for path in files if base64.urlsafe_b64decode(path.name).endswith(census)).unlink()
    assert pending(whole) == {}
    change(whole, "census_pairs", 77)
    assert "no record of results/embedded-shared/word/addition/census.parquet" in refused(whole)
    shutil.rmtree(whole / ".snakemake/metadata")
    assert "was made with census_pairs: " in refused(whole)


def test_results_of_another_run_in_the_place_of_these_are_refused(whole, tmp_path):
    """Snakemake has a record of every file, but it is that of the file before."""
    other = shutil.copytree(whole, tmp_path / "other", symlinks=True)
    change(other, "probe_prompts", 99)
    noted = []
    for words in ("--until", "probe"), ():
        done(other, *words)
        noted.append(len(json.loads((other / MODEL / "configuration.json").read_text())["configurations"]))
    assert noted == [2, 1]
    shutil.copytree(other / "results", whole / "results", dirs_exist_ok=True)
    assert "was made with probe_prompts: 99 (now 200)" in refused(whole)


def test_files_of_an_unknown_configuration_are_refused(copied, monkeypatch):
    for content in (None, "{}", '{"configurations": "abc"}', '{"configurations": [1, null]}'):
        for path in copied.glob("results/*/configuration.json"):
            path.write_text(content) if content else path.unlink()
        said = said_of(copied, monkeypatch)
        assert re.search(f"{MODEL} has files of (an unknown configuration|several)", said), content
        for folder in copied.glob("results/embedded-*"):
            (folder / "configuration.json").touch()
