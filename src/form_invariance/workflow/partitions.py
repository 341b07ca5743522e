"""Time limits of a SLURM cluster's partitions, and the jobs that ask for more."""

import re
import shutil
import subprocess

import pandas as pd

DEFAULT = ""
"""In the place of a partition's name: that of jobs which name none."""


def on_cluster() -> bool:
    """Whether this machine submits jobs to SLURM."""
    return shutil.which("sbatch") is not None


def limits() -> dict[str, float]:
    """Minutes that a job may take in each partition that has a limit; nothing where SLURM does not say."""
    if shutil.which("sinfo") is None:
        return {}
    done = subprocess.run(["sinfo", "--noheader", "--format=%P %l"], capture_output=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        name, _, text = line.strip().rpartition(" ")
        if (minutes := minutes_of(text)) is not None:
            found[name.removesuffix("*")] = minutes
            if name.endswith("*"):
                found[DEFAULT] = minutes
    return found


def minutes_of(text: str) -> float | None:
    """A time of SLURM's, such as 1-12:00:00, 2:00:00 or 30:00, in minutes; None for a word such as infinite."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60


def beyond(jobs: pd.DataFrame, known: dict[str, float]) -> list[str]:
    """A sentence for each rule and partition whose pending jobs ask for more time than the partition gives.

    Args:
        jobs: rows of the plan.
        known: from `limits`.
    """
    found = []
    for (rule, partition), own in jobs[jobs["pending"]].groupby(["rule", "partition"], sort=False):
        asked, most = own["minutes"].max(), known.get(str(partition))
        if most is not None and asked > most:
            name = f"the partition {partition}" if partition else "the default partition"
            found.append(
                f"{rule} asks for {asked:.0f} minutes a job, but {name} gives {most:.0f}; name another partition "
                f"in config/cluster.yaml, or lower the limit with --set-resources {rule}:runtime={most:.0f}"
            )
    return found
