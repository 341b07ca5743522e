"""Damage to a job's inputs, and what may come of it."""

import os

from faults.commands import contents, run

KILLS = int(os.environ.get("FAULTS", "200"))
DAMAGES = 6 if KILLS >= 100 else 1


def restore(folder, good):
    """Put a job's outputs back, for the jobs that read them."""
    for path, content in good.items():
        (folder / path).write_bytes(content)


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
    # Of a job of several commands, those before the one that failed have written.
    written = {output: content for output, content in contents(folder, job.outputs).items() if content is not None}
    assert all(" + " in job.command and content == good[output] for output, content in written.items()), job.rule
