"""The small grid, over and over, killed at random moments: the same files each time, and no other ones.

Every second run goes through the job server, as in `make demo`. LONG_RUN_ROUNDS=3 make test-long: fewer than ten.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import time

import psutil
from stub_checkout import environment, make_checkout

ROUNDS = int(os.environ.get("LONG_RUN_ROUNDS", "10"))
KILLS = 4
CHANGING = {"logs", "benchmarks", "report.html", "configuration.json"}
"""What tells times, or has the token of a run."""


def start(folder, *words, server=False):
    through = [sys.executable, "-m", "form_invariance", "job-server"] if server else []
    # Byte code is kept outside the folder, because a killed job may leave a part of it.
    quick = {**environment(folder), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}.pyc"}
    return subprocess.Popen(
        [*through, sys.executable, "-m", "snakemake", *words, "--configfile", "config/test.yaml"],
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


def files(folder):
    """Every file of the run but a log of each call, and temporary folders of a killed Snakemake, server or job."""
    left = (".snakemake/log/", "tmp/snakemake", "tmp/jobs-", "tmp/constructed-")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return sorted(path for path in found if not path.startswith(left))


def test_ten_runs_with_kills_are_one(tmp_path):
    folder = make_checkout(tmp_path / "checkout", stub=False)
    (folder / "tmp").mkdir()
    rng = random.Random(0)
    begin, seconds, killed = time.monotonic(), {}, 0
    for number in range(1, ROUNDS + 1):
        shutil.rmtree(folder / "results", ignore_errors=True)
        server, kills, began = number % 2 == 0, KILLS if number > 2 else 0, time.monotonic()
        killed += finish(folder, rng, kills, seconds.get(server, 0) / KILLS, server)
        seconds.setdefault(server, time.monotonic() - began)
        print(f"run {number} of {ROUNDS}: {killed} kills, {(time.monotonic() - begin) / 60:.1f} min", flush=True)
        now, present = digests(folder), files(folder)
        if number == 1:
            first, present_first = now, present
            assert len(first) > 100
        assert now == first, sorted(path for path in {*now, *first} if now.get(path) != first.get(path))
        assert present == present_first
    assert killed >= 2 * (ROUNDS - 2), "most kills came too late to say anything"
