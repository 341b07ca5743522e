"""The demo, over and over, killed at random moments: the same files each time, and nothing grows.

Every second run goes through the job server, as in `make demo`.

make test-long                                              # the demo ten times: hours
LONG_RUN_ROUNDS=3 make test-long                            # fewer
LONG_RUN_CONFIG=tests/long_run/small.yaml make test-long    # on few prompts: an hour or two
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
from stub_checkout import ROOT, environment

ROUNDS = int(os.environ.get("LONG_RUN_ROUNDS", "10"))
CONFIG = os.environ.get("LONG_RUN_CONFIG", "")
KILLS = 4
SAMPLED = 3
"""Seconds that a job must run: Snakemake measures memory twice a second, of a short job before it has begun."""
CHANGING = {"logs", "benchmarks", "report.html", "configuration.json"}
"""What tells times, or has the token of a run."""


def start(folder, *words, server=False):
    through = [sys.executable, "-m", "form_invariance", "job-server"] if server else []
    options = ["--configfile", str(Path(CONFIG).resolve())] if CONFIG else []
    # Byte code is kept, but outside: a killed job may leave a part of it there.
    quick = {**environment(folder), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}.pyc"}
    return subprocess.Popen(
        [*through, sys.executable, "-m", "snakemake", *words, *options],
        cwd=folder,
        env={**quick, "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"},
        stdout=(folder / "said.txt").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def kill(process, way, rng):
    """Kill Snakemake alone, all processes, or one job or the job server (`one`); or send SIGTERM (`term`)."""
    everyone = psutil.Process(process.pid).children(recursive=True)
    snakemake = next((one for one in everyone if "snakemake" in one.cmdline()), process)
    childless = [one for one in everyone if one != snakemake and not one.children()]
    if way == "one" and childless:
        rng.choice(childless).kill()
        return
    for victim in {"all": [*everyone, process], "alone": [snakemake]}.get(way, []):
        victim.kill()
    process.terminate()
    try:
        process.wait(timeout=300)
    except subprocess.TimeoutExpired:
        # Snakemake may wait for its own lock (docs/troubleshooting.md); any other job would have ended by now.
        assert way == "term", f"Snakemake still runs, though it was killed ({way})"
        print("Snakemake did not end after SIGTERM, and was killed", flush=True)
        for victim in [*everyone, process]:
            victim.kill()
        process.wait()
    # Its jobs may still write, and Snakemake would refuse to start; so wait for them.
    psutil.wait_procs(everyone, timeout=600)


def finish(folder, rng, kills, until, server=False):
    """Run to the end, with kills on the way within `until` seconds each; returns how many came in time."""
    killed = 0
    for number in range(kills + 1):
        process = start(folder, server=server)
        if number < kills:
            try:
                process.wait(timeout=rng.uniform(3, until))
            except subprocess.TimeoutExpired:
                kill(process, ("alone", "all", "one", "term")[number % 4], rng)
                killed += 1
        status = process.wait(timeout=7200)
        if number < kills and status:
            start(folder, "--unlock").wait(timeout=120)
    assert status == 0, (folder / "said.txt").read_text()[-3000:]
    return killed


def digests(folder):
    """The SHA-256 of every result that two runs have alike."""
    results = folder / "results"
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.rglob("*"))
        if path.is_file() and not {path.name, path.relative_to(results).parts[0]} & CHANGING
    }


def largest_memory(folder):
    """The largest resident set in MB of each rule whose jobs are long enough."""
    tables = [
        pd.read_csv(path, sep="\t").assign(rule=path.relative_to(folder / "results/benchmarks").parts[0])
        for path in (folder / "results/benchmarks").rglob("*.tsv")
    ]
    jobs = pd.concat(tables)
    jobs = jobs[jobs["s"] >= SAMPLED].set_index("rule")
    return pd.to_numeric(jobs["max_rss"], errors="coerce").groupby("rule").max()


def files(folder):
    """Every file of the run but a log of each call, and temporary folders of a killed Snakemake, server or job."""
    left = (".snakemake/log/", "tmp/snakemake", "tmp/jobs-", "tmp/constructed-")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return sorted(path for path in found if not path.startswith(left))


def test_ten_runs_with_kills_are_one(tmp_path):
    folder = tmp_path / "checkout"
    for name in ("workflow", "config", "src", "envs"):
        skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    (folder / "tmp").mkdir()
    rng = random.Random(0)
    begin, seconds, memory, killed = time.monotonic(), {}, [], 0
    for number in range(1, ROUNDS + 1):
        shutil.rmtree(folder / "results", ignore_errors=True)
        server, kills, began = number % 2 == 0, KILLS if number > 2 else 0, time.monotonic()
        killed += finish(folder, rng, kills, seconds.get(server, 0) / KILLS, server)
        seconds.setdefault(server, time.monotonic() - began)
        print(f"run {number} of {ROUNDS}: {killed} kills, {(time.monotonic() - begin) / 60:.1f} min", flush=True)
        now, present = digests(folder), files(folder)
        if number == 1:
            first, present_first = now, present
            assert len(first) > 300
        assert now == first, sorted(path for path in {*now, *first} if now.get(path) != first.get(path))
        assert present == present_first
        # What the server runs has no measured memory.
        if not server:
            memory.append(largest_memory(folder))
    assert killed >= 2 * (ROUNDS - 2), "most kills came too late to say anything"
    # Samples of a short job's memory vary; what grows with every run lies above all early runs in the end.
    middle = len(memory) // 2
    early, late = (pd.concat(half, axis=1) for half in (memory[:middle], memory[middle:]))
    grown = (late.min(axis=1) / early.max(axis=1)).dropna()
    assert len(grown) >= 10, "too few jobs are long enough to measure their memory"
    print((late.median(axis=1) / early.median(axis=1)).sort_values().to_string())
    assert grown.max() < 1.1, grown.sort_values().tail()
