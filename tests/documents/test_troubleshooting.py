"""The troubleshooting guide: each sentence that it quotes is provoked, each command that it gives is tried."""

import argparse
import copy
import errno
import inspect
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import snakemake_executor_plugin_slurm
import torch
from configurations import SCHEMA, SHIPPED, with_value
from matplotlib.figure import Figure
from problem_frames import complete_problems
from safetensors.torch import load_file, save_file
from snakemake.exceptions import MissingOutputException
from snakemake.scheduling.job_scheduler import JobScheduler
from stub_checkout import ROOT, environment, snakemake

from form_invariance.drawing import style
from form_invariance.model import digests as model_digests
from form_invariance.model import files as model_files
from form_invariance.model import hub, indirect_effect, sizes, stored_weights, tokenizers
from form_invariance.model import loading as models
from form_invariance.model.decoder import Norm
from form_invariance.model.digests import MODEL_FILES
from form_invariance.model.readouts import Readouts
from form_invariance.model.replay import last_token_neurons
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic, TableTask, check_task
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.dataset import compute as datasets
from form_invariance.stages.dataset import preflight
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.model_options import device_of
from form_invariance.stages.patching import compute as patching
from form_invariance.tables.files import read_table, write_table
from form_invariance.workflow import config_check, job_sizes

pytestmark = pytest.mark.slow

GUIDE = (ROOT / "docs/troubleshooting.md").read_text()
QUOTED = re.findall(r"^- \*\*`(.+)`\*\*$", GUIDE, re.MULTILINE)


def pattern(sentence):
    """A quoted sentence, in which … stands for anything."""
    return re.compile("".join(".+?" if part == "…" else re.escape(part) for part in re.split("(…)", sentence)))


def told(function, *arguments):
    """What a call says when it refuses."""
    with pytest.raises((Exception,)) as caught:
        function(*arguments)
    return " ".join(str(caught.value).split())


def refused(path, value):
    """What the check of the default configuration says after one change."""
    return told(config_check.check, with_value(SHIPPED, path, value), SCHEMA)


def about_the_configuration(tmp_path):
    (tmp_path / "cluster.yaml").write_text("gpu: {mem: '64000'}")
    (tmp_path / "twice.yaml").write_text("seed: 1\nseed: 2\n")
    yield told(config_check.load, tmp_path / "twice.yaml")
    template = "formats/symbolic/templates/addition"
    yield refused("sede", 1)
    yield refused("k", [50, 1100])
    yield refused("candidates", 100)
    yield refused(template, "{a}+{b}=1")
    yield refused(template, "{a}{b}=")
    yield refused("operands/operand_max", 1200)
    yield refused("operands", {"operand_min": 900, "operand_max": 999, "answer_min": 3, "answer_max": 9})
    yield told(job_sizes.read_site, tmp_path / "cluster.yaml")


def of_other_files(folder, tmp_path):
    """A model that has changed since it was recorded, and one that was damaged in the hub's cache."""
    record, blob = tmp_path / "model_files.parquet", tmp_path / "blobs" / ("0" * 64)
    write_table(model_digests.record(folder), record, MODEL_FILES, {})
    path, away = folder / "model.safetensors", folder / "away"
    path.rename(away)
    yield told(model_digests.check, folder, record)
    blob.parent.mkdir()
    blob.write_bytes(away.read_bytes())
    path.symlink_to(blob)
    yield told(model_digests.record, folder)
    away.rename(path)


def about_targets(tokenizer, tmp_path):
    """A tokenizer that keeps numbers whole, and an answer that no token begins."""
    yield told(check_task, Arithmetic("a + b", OperandRange(), 1), tokenizer, "{a}+{b}=", "x")
    table = tmp_path / "numbers.csv"
    table.write_text("word,answer\na,1\nb,2\n")
    yield told(check_task, TableTask(table, "answer"), tokenizer, "{word} 12", "x")


def about_the_model(folder, patch):
    """One fault after the other of a model's folder, each the first that is found."""

    def no_network(*_, **__):
        raise huggingface_hub.errors.LocalEntryNotFoundError("no network")

    patch.setattr(huggingface_hub, "snapshot_download", no_network)
    yield told(model_files.resolve, "meta-llama/Llama-3.2-1B")
    yield told(model_files.resolve, "./no/such/folder")
    yield told(model_files.resolve, "src/llama-1b")
    patch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(folder.parent))
    patch.setattr(huggingface_hub, "list_repo_files", no_network)
    patch.setattr(hub, "cached", lambda *_: folder.parent)
    yield told(model_files.resolve, "meta-llama/Llama-3.2-1B")
    path, weights = folder / "model.safetensors", load_file(folder / "model.safetensors")
    yield from about_the_tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    yield told(tokenizers.load_tokenizer, folder)
    save_file({**weights, "model.adapter.weight": torch.zeros(3)}, path)
    yield told(models.load, folder)
    save_file({**weights, "model.norm.weight": torch.zeros(48, dtype=torch.int8)}, path)
    yield told(models.load, folder)
    save_file({**weights, "model.norm.weight": torch.zeros(3)}, path)
    yield told(models.load, folder)
    path.unlink()
    yield told(stored_weights.weight_files, folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "model-2.safetensors"}}))
    yield told(stored_weights.weight_files, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "bloom"}))
    yield told(sizes.read_sizes, folder)


def about_the_tokenizer(folder):
    """A file of the tokenizer is changed, and what is said of a template then."""

    def check():
        limits = OperandRange(6, 20, 3, 40)
        tokenizer = tokenizers.load_tokenizer(folder)
        take_census(None, tokenizer, "{a}+{b}=", "addition", Arithmetic("a + b", limits), None, 0)

    path = folder / "tokenizer.json"
    before = path.read_text()
    for token in (10**7, json.loads(before)["model"]["vocab"]["13"]):
        tokenizer = json.loads(before)
        tokenizer["model"]["vocab"]["12"] = token
        path.write_text(json.dumps(tokenizer))
        yield told(check)
    spanning = {"type": "Replace", "pattern": {"String": "7+8"}, "content": "8+7"}
    path.write_text(json.dumps({**json.loads(before), "normalizer": spanning}))
    yield told(check)
    path.write_text(before)


def census(correct):
    table = pd.DataFrame({"a": range(3), "b": 1000, "answer": [1, 2, 3], "correct": correct})
    return complete_problems(table.assign(prompt="p", uniform=True))


def of_jobs(model, tokenizer, tmp_path):
    yield told(datasets.choose_dataset, census([True, False, False]), 2, 2, 0, "addition", "{a}+{b}=")
    two = datasets.Choice(2, 2, 1, 0)
    few = preflight.preflight_table({("word", "addition"): (census([True, False, False]), "{a}+{b}=")}, two)
    yield told(preflight.check, few, two)
    yield told(datasets.derangement, np.array([1, 1, 1, 2]), np.random.default_rng(0), "dataset of addition")
    yield told(mean_cache.choose_prompts, {"addition": census(True)}, [census(True)], 20, 0)
    broken = copy.copy(model)
    broken.final_norm = Norm(model.final_norm.weight * float("nan"))
    task = Arithmetic("a + b", OperandRange(6, 20, 3, 40))
    yield told(take_census, broken, tokenizer, "{a}+{b}=", "addition", task, 5, 0)
    nothing = copy.copy(model)
    nothing.embedding = model.embedding * float("inf")
    yield told(mean_cache.compute, nothing, tokenizer, [["6+7="]])
    yield told(device_of, argparse.Namespace(device="cuda:99"))
    (tmp_path / "broken.parquet").write_text("no table")
    yield told(read_table, tmp_path / "broken.parquet", CENSUS)
    pd.DataFrame({"k": [1], "layer": [2], "neuron": [3]}).to_parquet(tmp_path / "changed.parquet")
    yield told(read_table, tmp_path / "changed.parquet", CIRCUIT)
    yield told(read_table, tmp_path / "missing.parquet", CENSUS)
    pd.DataFrame({"k": [1], "layer": [2], "neuron": [3]}).to_parquet(tmp_path / "edited.parquet")
    yield told(read_table, tmp_path / "edited.parquet", CIRCUIT)


def of_patching(model, patch):
    tokens, answers = torch.tensor([[0, 5, 6, 7]]), torch.tensor([[[8, 9]]])
    corrupt = last_token_neurons(model, tokens + 1, 2)[None]
    arguments = (model, tokens, 2, {3: torch.arange(4)}, corrupt, answers, lambda _: None, Readouts())
    patch.setattr(indirect_effect, "indirect_effect", lambda *changes: changes[0] + float("inf"))
    yield told(patching.patch_layers, *arguments)
    calls = itertools.count()
    for module in (patching, indirect_effect):
        patch.setattr(module, "log_probabilities", lambda *_: torch.full((1, 5, 2), float(next(calls))))
    yield told(patching.patch_layers, *arguments)


def of_a_full_machine(tmp_path, patch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(os, "fsync", full)
    circuit = pd.DataFrame({"k": [1], "layer": [2], "neuron": [3]})
    yield told(write_table, circuit, tmp_path / "full/circuit.parquet", CIRCUIT, {})
    assert not list((tmp_path / "full").iterdir())  # "what was being written is gone"
    yield told(torch.empty, 2**50)
    patch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 2000))
    yield told(models.check_room, "model folder m", 10**6, torch.float32, torch.device("cuda:0"))
    if torch.cuda.is_available():
        yield told(lambda: torch.empty(2**50, device="cuda"))


def kill_while_writing(checkout):
    """Kill Snakemake while a job writes the report, of which a piece is there."""
    output = checkout / "results/report.html"
    output.unlink()
    (checkout / "slow").write_text("results/report.html")
    run = subprocess.Popen(
        [sys.executable, "-m", "snakemake"],
        cwd=checkout,
        env=environment(checkout),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while (checkout / "slow").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not (checkout / "slow").exists()
    output.write_text("<html>")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()


def of_snakemake(checkout, tmp_path):
    (tmp_path / "broken.yaml").write_text("k: [10")
    (tmp_path / "empty.yaml").write_text("# k: [10]\n")
    (tmp_path / "list.yaml").write_text("- k\n")
    for name in ("broken.yaml", "empty.yaml", "list.yaml"):
        yield snakemake(checkout, "--configfile", str(tmp_path / name))[1]
    for names in (["missing.yaml"], ["config/test.yaml", "rankings_all"]):
        yield snakemake(checkout, "--configfile", *names)[1]
    yield snakemake(checkout, "-n", "--config", "k=[10]")[1]
    yield snakemake(checkout, "-n", "--directory", str(tmp_path / "{x}"))[1]
    shutil.move(checkout / ".snakemake", tmp_path / "records")
    yield snakemake(checkout, "-n", "--config", "census_pairs=77")[1]
    shutil.rmtree(checkout / ".snakemake")
    shutil.move(tmp_path / "records", checkout / ".snakemake")
    kill_while_writing(checkout)
    yield snakemake(checkout)[1]
    assert snakemake(checkout, "--unlock")[0] == 0
    yield snakemake(checkout, "--workflow-profile", "none", "--cores", "1")[1]
    assert snakemake(checkout)[0] == 0  # with the profile it is made again without a question
    assert "--output results/report.html" in (checkout / "results/report.html").read_text()
    yield snakemake(tmp_path, "--profile", "slurm", "-n", home=tmp_path / "nobody")[1]
    yield str(MissingOutputException("Missing files after 5 seconds.", jobid="3"))
    source = " ".join(inspect.getsource(snakemake_executor_plugin_slurm).split())
    assert "SLURM-job '{j.external_jobid}' failed, \" f\"SLURM status is: '{status}'. \"" in source
    for status in ("OUT_OF_MEMORY", "TIMEOUT"):
        assert f'"{status}",' in source
        yield f"SLURM-job '7' failed, SLURM status is: '{status}'. Reason: Unknown."


def of_figures(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure()
        figure.text(0, 0, "苹果")
        style.save(figure, [tmp_path / "x.png"])
    yield str(caught[0].message)


@pytest.fixture(scope="module")
def said(tmp_path_factory, tiny, tiny_folder, finished):
    """What is said in each trouble: our own sentences, and texts that hold those of others."""
    tmp_path = tmp_path_factory.mktemp("trouble")
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    own = [*about_the_configuration(tmp_path), *of_jobs(*tiny, tmp_path), *about_targets(tiny[1], tmp_path)]
    with pytest.MonkeyPatch.context() as patch:
        own += [*of_other_files(folder, tmp_path), *about_the_model(folder, patch), *of_patching(tiny[0], patch)]
    with pytest.MonkeyPatch.context() as patch:
        others = [*of_a_full_machine(tmp_path, patch)]
    others += [*of_snakemake(finished, tmp_path), *of_figures(tmp_path)]
    return own, [" ".join(text.split()) for text in others]


@pytest.mark.parametrize("sentence", QUOTED)
def test_a_quoted_sentence_is_what_is_said(said, sentence):
    own, others = said
    if sentence.startswith("CUDA out of memory") and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    assert any(map(pattern(sentence).fullmatch, own)) or any(map(pattern(sentence).search, others))


def test_nothing_that_is_said_is_quoted_twice(said):
    own, others = said
    for text in own:
        assert sum(bool(pattern(one).fullmatch(text)) for one in QUOTED) <= 1, text
    for text in others:
        assert sum(bool(pattern(one).search(text)) for one in QUOTED) == 1, text


def test_pickled_weights_are_converted(tiny_folder, tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "OLD").symlink_to(tiny_folder)
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)
    before, after = models.load(tiny_folder), models.load(tmp_path / "NEW")
    assert torch.equal(before.layers[1].down, after.layers[1].down)
    tokenizers.load_tokenizer(tmp_path / "NEW")


def test_snakemakes_signal_handler_takes_the_lock_that_finishing_a_job_holds():
    """If this fails, Snakemake has fixed the bug: remove the guide's section and the second kill of test-long."""
    assert "self._lock = threading.Lock()" in inspect.getsource(JobScheduler.__init__)
    assert "with self._lock" in inspect.getsource(JobScheduler.exit_gracefully)
