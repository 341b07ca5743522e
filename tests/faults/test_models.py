"""Models and configurations that are damaged between two jobs: the right result, or a sentence that names them."""

import os
from itertools import islice

import numpy as np
from damages import damages

from faults.commands import contents, run
from faults.damage import DAMAGES, restore, try_damaged

NOT_READ = "generation_config.json"


def flip_one_bit(content, rng):
    """One bit of the second half, where a file of weights has numbers."""
    flipped = bytearray(content)
    flipped[rng.integers(len(flipped) // 2, len(flipped))] ^= 1 << rng.integers(8)
    return bytes(flipped)


def chosen(path, rng, number):
    """A number of damages of a file, None for its removal; for weights one is a flipped bit."""
    content = path.read_bytes()
    several = [flip_one_bit(content, rng), *islice(damages(content, rng), 6), None]
    order = list(rng.permutation(len(several)))
    order.sort(key=lambda kind: path.suffix == ".safetensors" and kind != 0)
    return [several[kind] for kind in order[:number]]


def put(path, bad):
    """Damage a file under its old time stamp."""
    status = path.stat()
    if bad is None:
        path.unlink()
        return
    path.write_bytes(bad)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_jobs_of_another_model_are_refused(finished_run, jobs):
    """Every job that reads the model finds each of its files damaged, after the first job has recorded them."""
    rng = np.random.default_rng(3)
    files = sorted((finished_run / "model").iterdir())
    assert len(files) == 7
    readers = [job for job in jobs.values() if "--model-files" in job.command]
    assert len(readers) > 14
    for job in readers:
        good = contents(finished_run, job.outputs)
        for path in files:
            content, status = path.read_bytes(), path.stat()
            try:
                for bad in chosen(path, rng, 1):
                    put(path, bad)
                    try_damaged(finished_run, job, f"model/{path.name}", good)
                    path.write_bytes(content)
            finally:
                path.write_bytes(content)
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                restore(finished_run, good)


def test_the_first_job_tells_a_damaged_model_from_the_whole_one(finished_run, jobs):
    """It refuses what cannot be read, and records other digests for what can."""
    rng = np.random.default_rng(4)
    job = jobs["model_files"]
    good = contents(finished_run, job.outputs)
    for path in sorted((finished_run / "model").iterdir()):
        content = path.read_bytes()
        try:
            for bad in chosen(path, rng, DAMAGES):
                put(path, bad)
                status, errors = run(job, finished_run)
                if status:
                    assert errors.strip().splitlines()[-1].startswith("error: "), errors[-600:]
                    assert "model" in errors.strip().splitlines()[-1]
                else:
                    assert (contents(finished_run, job.outputs) == good) == (path.name == NOT_READ), path
                path.write_bytes(content)
        finally:
            path.write_bytes(content)
            restore(finished_run, good)
