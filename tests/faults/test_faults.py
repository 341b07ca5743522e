"""Jobs that are killed, that find the disk full, whose inputs are damaged or vanish: nothing wrong is ever left.

make test-faults               # 200 kills, and 6 damages of every kind of every input
FAULTS=5 make test-faults      # fewer
"""

import os
import signal
import subprocess
import time
from itertools import islice

import numpy as np
import pytest
from damages import damages

from faults.commands import contents, input_kinds, run, start
from faults.damage import DAMAGES, KILLS, restore, try_damaged


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
        restore(folder, good[rule])
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
        good = contents(folder, job.outputs)
        for path in input_kinds(job):
            content = (folder / path).read_bytes()
            try:
                for bad in islice(damages(content, rng), DAMAGES):
                    (folder / path).write_bytes(bad)
                    try_damaged(folder, job, path, good)
                    tried += 1
                (folder / path).unlink()
                try_damaged(folder, job, path, good)
            finally:
                (folder / path).write_bytes(content)
                restore(folder, good)
    assert tried >= 20 * DAMAGES


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
