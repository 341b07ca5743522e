"""The commands of a finished run, taken from what Snakemake recorded of each job, to be run again by hand."""

import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from replayed_run import written
from stub_checkout import ROOT, environment


@dataclass(frozen=True)
class Job:
    """One finished job: its shell command without the log, and its files, relative to the run's folder."""

    rule: str
    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def finished_jobs(folder: Path) -> list[Job]:
    """Every job of the run in a folder, one for each command."""
    found: dict[str, tuple[str, set[str], set[str]]] = {}
    for record in (folder / ".snakemake/metadata").rglob("*"):
        if not record.is_file():
            continue
        job = json.loads(record.read_text())
        command = (job["shellcmd"] or "").partition(" 2> ")[0]
        if not command:
            continue
        _, inputs, outputs = found.setdefault(command, (job["rule"], set(), set()))
        inputs.update(path for path in job["input"] if path.startswith("results/"))
        outputs.update(str(path.relative_to(folder)) for path in written(shlex.split(command), folder))
    return [
        Job(rule, command, tuple(sorted(inputs)), tuple(sorted(outputs)))
        for command, (rule, inputs, outputs) in sorted(found.items())
    ]


def start(job: Job, folder: Path) -> subprocess.Popen[str]:
    """Start a job's command in a folder, in a process group of its own."""
    return subprocess.Popen(
        ["bash", "-c", f"exec {job.command}"],
        cwd=folder,
        env=environment(ROOT, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(job: Job, folder: Path) -> tuple[int, str]:
    """Run a job's command to its end; exit status and what it printed as errors."""
    process = start(job, folder)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def contents(folder: Path, paths: tuple[str, ...]) -> dict[str, bytes | None]:
    """The bytes of files, None where there is none."""
    return {path: (folder / path).read_bytes() if (folder / path).exists() else None for path in paths}
