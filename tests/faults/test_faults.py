"""Jobs that are killed, that find the disk full, whose inputs are damaged or vanish: nothing wrong is ever left.

make test-faults               # 200 kills, and 6 damages of every kind of every input
FAULTS=5 make test-faults      # fewer
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import islice

import numpy as np
import pytest
import yaml
from damages import damages
from hugging_face import write_shards
from safetensors.torch import load_file
from stub_checkout import ROOT, environment, make_checkout

from faults.commands import contents, finished_jobs, run, start
from form_invariance.model.files import PACKAGED
from form_invariance.stages.agreement.table import AGREEMENT
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.tables.files import read_table

KILLS = int(os.environ.get("FAULTS", "200"))
DAMAGES = 6 if KILLS >= 100 else 1


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


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A folder in which the small grid has run."""
    folder = make_checkout(tmp_path_factory.mktemp("run") / "checkout", stub=False)
    write_model(folder / "model")
    small = yaml.safe_load((ROOT / "config/test.yaml").read_text())
    (folder / "my.yaml").write_text(yaml.safe_dump({**small, "models": {"m": {"source": "model"}}}))
    words = [sys.executable, "-m", "snakemake", "--configfile", "my.yaml", "--quiet", "all"]
    subprocess.run(words, cwd=folder, env=environment(folder), check=True, timeout=1800)
    return folder


@pytest.fixture(scope="module")
def jobs(finished_run):
    """One job of every rule that ran a command."""
    by_rule = {job.rule: job for job in finished_jobs(finished_run)}
    assert len(by_rule) > 25
    # It tells the run times of all jobs, also of those that ended after it.
    assert run(by_rule["report"], finished_run)[0] == 0
    return by_rule


@contextmanager
def kept(folder, job, path):
    """What a job has made; afterwards its outputs, and an input with its time stamp, are put back."""
    good, content, status = contents(folder, job.outputs), (folder / path).read_bytes(), (folder / path).stat()
    try:
        yield good
    finally:
        for name, before in {**good, path: content}.items():
            (folder / name).write_bytes(before)
        os.utime(folder / path, ns=(status.st_atime_ns, status.st_mtime_ns))


def try_damaged(folder, job, path, good):
    """Run a job one of whose inputs is damaged or gone: the right result, or a sentence that names the input."""
    for output in job.outputs:
        (folder / output).unlink(missing_ok=True)
    status, errors = run(job, folder)
    if status == 0:
        assert contents(folder, job.outputs) == good, f"{job.rule}: a wrong result from a damaged {path}"
        return
    last = errors.strip().splitlines()[-1]
    assert last.startswith("error: "), f"{job.rule}, {path}: {errors[-600:]}"
    assert path in last, f"{job.rule}, {path}: {last}"
    # In a job of several commands, those before the failed one have written.
    written = {output: content for output, content in contents(folder, job.outputs).items() if content is not None}
    assert all(" + " in job.command and content == good[output] for output, content in written.items()), job.rule


def test_kills_leave_whole_files_or_none(finished_run, jobs):
    """Every rule's command is killed at random moments; afterwards it runs to the same bytes."""
    rng = np.random.default_rng(0)
    folder, rules = finished_run, sorted(jobs)
    durations, good, in_time = {}, {}, 0
    for rule in rules:
        begin = time.monotonic()
        status, errors = run(jobs[rule], folder)
        assert status == 0, errors
        durations[rule] = time.monotonic() - begin
        good[rule] = contents(folder, jobs[rule].outputs)
        assert all(good[rule].values()), rule
    for number in range(KILLS):
        rule = rules[number % len(rules)]
        for path in jobs[rule].outputs:
            (folder / path).unlink(missing_ok=True)
        process = start(jobs[rule], folder)
        # Outputs are written at the end, where a kill does most harm.
        share = rng.uniform(0, 1.05) if number % 2 else rng.uniform(0.8, 1.05)
        time.sleep(share * durations[rule])
        os.killpg(process.pid, signal.SIGKILL if number % 3 else signal.SIGTERM)
        process.communicate()
        in_time += process.returncode != 0
        for path, content in contents(folder, jobs[rule].outputs).items():
            assert content is None or content == good[rule][path], f"{rule}: {path} is half-written"
        for path, content in good[rule].items():
            (folder / path).write_bytes(content)
    assert in_time > KILLS / 2, "most kills came too late to say anything"
    for rule in rules:
        status, errors = run(jobs[rule], folder)
        assert status == 0, errors
        assert contents(folder, jobs[rule].outputs) == good[rule], rule
    assert not list((folder / "results").rglob(".*.part*"))


def test_damaged_inputs_are_named_or_harmless(finished_run, jobs):
    """Each kind of input of each rule is damaged or gone: the right result, or a sentence that names the file."""
    rng = np.random.default_rng(1)
    folder, tried = finished_run, 0
    for job in jobs.values():
        read = [path for path in job.inputs if path.endswith((".parquet", ".safetensors"))]
        for path in {os.path.basename(path): path for path in read}.values():
            with kept(folder, job, path) as good:
                for bad in islice(damages((folder / path).read_bytes(), rng), DAMAGES):
                    (folder / path).write_bytes(bad)
                    try_damaged(folder, job, path, good)
                    tried += 1
                (folder / path).unlink()
                try_damaged(folder, job, path, good)
    assert tried >= 20 * DAMAGES


def damage(path, rng):
    """Damage a file under its old time stamp, or remove it; in weights one number changes."""
    content, status = path.read_bytes(), path.stat()
    bad = [*islice(damages(content, rng), 6), None][rng.integers(7)]
    if path.suffix == ".safetensors":
        bad = bytearray(content)
        bad[rng.integers(len(bad) // 2, len(bad))] ^= 1 << rng.integers(8)
    if bad is None:
        path.unlink()
    else:
        path.write_bytes(bad)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_jobs_of_another_model_are_refused(finished_run, jobs):
    """Every job that reads the model finds each of its files damaged, after the first job has recorded them."""
    rng = np.random.default_rng(3)
    files = sorted((finished_run / "model").iterdir())
    assert len(files) == 7
    readers = [job for job in jobs.values() if "--model-files" in job.command]
    known = {job.rule for job in jobs.values() if any("model_files.parquet" in path for path in job.inputs)}
    # The report only shows the files.
    assert {"census", "patching", "probe", "transfer"} <= {job.rule for job in readers} == known - {"report"}
    for job in readers:
        for path in files:
            with kept(finished_run, job, f"model/{path.name}") as good:
                damage(path, rng)
                try_damaged(finished_run, job, f"model/{path.name}", good)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told(finished_run, jobs, small_disk):
    """Every rule writes where there is no room: a sentence that names the file, and nothing in its place."""
    (small_disk / "filler").write_bytes(b"x" * (60 << 10))
    for rule, job in sorted(jobs.items()):
        command = job.command
        for path in sorted(job.outputs, key=len, reverse=True):
            command = command.replace(path, str(small_disk / path.replace("/", "_")))
        if "--output-folder" in command:
            own = os.path.dirname(job.outputs[0])
            command = command.replace(f"--output-folder {own}", f"--output-folder {small_disk}")
        status, errors = run(type(job)(rule, command, job.inputs, ()), finished_run)
        written = [path for path in small_disk.iterdir() if path.name != "filler"]
        if status:
            last = errors.strip().splitlines()[-1]
            assert last.startswith("error: "), f"{rule}: {errors[-600:]}"
            assert "cannot be written" in last, last
            assert str(small_disk) in last, last
        assert not [path for path in written if path.name.startswith(".")], rule
        for path in written:
            path.unlink()


ONES = ("eval_prompts", "corrupt_seeds", "random_seeds", "matched_seeds", "mean_cache_prompts", "transfer_pairs")
ONES += ("bootstrap", "k_shown", "permutations")
SMALLEST = {
    **dict.fromkeys(ONES, 1),
    **{"census_pairs": 300, "train_prompts": 2, "probe_prompts": 40, "heuristic_max_operand": 20},
    "k": [1, 1032],
    "models": {"embedded-shared": {"source": "embedded:embedded-shared"}},
    "operators": {"addition": "a + b"},
}


def test_the_smallest_grid_runs_to_its_end(tmp_path):
    """Every size is the smallest that the configuration allows: the run ends, and says where nothing is left."""
    folder = make_checkout(tmp_path / "checkout", stub=False)
    (folder / "smallest.yaml").write_text(yaml.safe_dump(SMALLEST))
    words = [sys.executable, "-m", "snakemake", "--configfile", "smallest.yaml"]
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shared = folder / "results/embedded-shared/shared/addition"
    overlap = read_table(shared / "overlap.parquet", OVERLAP)
    assert overlap[(overlap["k"] == 1032) & (overlap["membership"] == "top_k")]["jaccard"].eq(1).all()
    assert read_table(shared / "agreement.parquet", AGREEMENT)["neurons"].eq(0).all()
    report = (folder / "results/report.html").read_text()
    assert "nan%" not in report
    assert "No shared neuron has a label" in report
