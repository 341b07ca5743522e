"""Models and configurations that are damaged between two jobs: the right result, or a sentence that names them."""

import os
from itertools import islice

import numpy as np
from damages import damages

from faults.commands import contents
from faults.damage import restore, try_damaged


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
    assert len(readers) > 14
    for job in readers:
        good = contents(finished_run, job.outputs)
        for path in files:
            content, status = path.read_bytes(), path.stat()
            try:
                damage(path, rng)
                try_damaged(finished_run, job, f"model/{path.name}", good)
            finally:
                path.write_bytes(content)
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                restore(finished_run, good)
