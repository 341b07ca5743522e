"""What groups of small jobs and SLURM's job arrays save, on a test cluster and with commands that do nothing.

    python tests/slurm/groups_or_arrays.py

runs the small grid three times, and prints how often sbatch was called, how many SLURM jobs waited in the
queue, and how long it took. The two exclude one another: a group cannot be a task of an array.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import cluster
from stub_checkout import ROOT, environment, make_checkout

MODES = {"neither": (False, []), "groups": (True, []), "arrays": (False, ["--slurm-array-jobs", "all"])}


def run(folder: Path, grouped: bool, words: list[str]) -> tuple[int, int, float]:
    """Run the grid; returns calls of sbatch, SLURM jobs (tasks of arrays too), and seconds."""
    checkout = make_checkout(folder / "checkout")
    home = folder / "home"
    profile = checkout / "workflow/profiles/slurm"
    if not grouped:
        text = (profile / "config.yaml").read_text()
        (profile / "config.yaml").write_text(text.split("# Small jobs")[0])
    quick = ["--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "5"]
    start = time.monotonic()
    done = subprocess.run(
        ["snakemake", "--profile", "slurm", "--configfile", str(ROOT / "config/test.yaml"), *quick, *words],
        cwd=checkout,
        env=environment(checkout, home),
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - start
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    known = subprocess.run(["scontrol", "--oneliner", "show", "job"], capture_output=True, text=True).stdout
    jobs = [line for line in known.splitlines() if f"WorkDir={checkout}" in line.split()]
    calls = {re.findall(r"\b(?:ArrayJobId|JobId)=(\d+)", line)[-1] for line in jobs}
    return len(calls), len(jobs), seconds


if __name__ == "__main__":
    reason = cluster.missing()
    if reason:
        sys.exit(f"error: {reason}")
    with tempfile.TemporaryDirectory() as name:
        cluster.up(Path(name) / "cluster")
        try:
            for mode, (grouped, words) in MODES.items():
                calls, jobs, seconds = run(Path(name) / mode, grouped, words)
                print(f"{mode:8s} {calls:4d} calls of sbatch  {jobs:4d} SLURM jobs  {seconds:6.0f} s", flush=True)
        finally:
            cluster.down(Path(name) / "cluster")
