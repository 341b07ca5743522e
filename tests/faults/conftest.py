"""A whole run of the small grid, whose jobs are then killed, starved and fed damaged files."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml
from hugging_face import write_shards
from safetensors.torch import load_file
from stub_checkout import ROOT, environment, make_checkout

from faults.commands import finished_jobs, run
from form_invariance.model.files import PACKAGED


def write_model(folder):
    """An embedded model as larger ones are stored: bfloat16, in two files, BOS named by tokenizer_config.json."""
    folder.mkdir()
    source = PACKAGED / "embedded-shared"
    shutil.copy(source / "config.json", folder)
    weights = load_file(source / "model.safetensors")
    write_shards({name: weight.bfloat16() for name, weight in weights.items()}, folder)
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    settings = json.loads((source / "tokenizer_config.json").read_text())
    for name, content in {
        "tokenizer.json": {**tokenizer, "post_processor": None},
        "tokenizer_config.json": {**settings, "add_bos_token": True},
        "generation_config.json": {"do_sample": False},
    }.items():
        (folder / name).write_text(json.dumps(content))


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """A folder in which the small grid has run."""
    folder = make_checkout(tmp_path_factory.mktemp("run") / "checkout", stub=False)
    write_model(folder / "model")
    small = yaml.safe_load((ROOT / "config/test.yaml").read_text())
    (folder / "my.yaml").write_text(yaml.safe_dump({**small, "models": {"m": {"source": "model"}}}))
    words = [sys.executable, "-m", "snakemake", "--configfile", "my.yaml", "--quiet", "all"]
    subprocess.run(words, cwd=folder, env=environment(folder), check=True, timeout=1800)
    return folder


@pytest.fixture(scope="session")
def jobs(finished_run):
    """One job of every rule that ran a command."""
    by_rule = {job.rule: job for job in finished_jobs(finished_run)}
    assert len(by_rule) > 25
    # It tells the run times of all jobs, also of those that ended after it.
    assert run(by_rule["report"], finished_run)[0] == 0
    return by_rule
