"""Files that vanish while Snakemake runs: nothing wrong is left, and the next call makes everything again."""

import re
import shutil
import subprocess
import sys
import time

import numpy as np
from stub_checkout import environment

from faults.damage import KILLS

NAMED = re.compile(
    r"^error: .*results/"
    r"|Missing\w+Exception.*\n(.*\n){0,9}.*results/"
    r"|results/\S+ \(missing locally"
    r"|results/\S+: No such file|No such file.*results/",
    re.MULTILINE,
)
"""What names a file: a command's sentence, or Snakemake's or the shell's word of what is not there."""
TENSORS = ".safetensors"
ROUNDS = max(2, KILLS // 20)
AGAIN = ("circuit", "mean_cache", "attribution", "census")
"""Stages one of which each round makes again, with all that follows from it."""


def files_of(folder, *suffixes):
    return sorted(path for path in (folder / "results").rglob("*") if path.suffix in suffixes)


def made(folder):
    """The bytes of every result but the report, which contains run times."""
    paths = files_of(folder, ".parquet", TENSORS, ".csv", ".md", ".tex", ".svg", ".png", ".pdf", ".html")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.name != "report.html"}


def victim(folder, rng):
    """Something that a running Snakemake, or one of its jobs, may still need."""
    kind = rng.integers(4)
    if kind < 2:
        found = files_of(folder, ".parquet", TENSORS)
    elif kind == 2:
        found = sorted((folder / "results/logs").iterdir())
    else:
        found = sorted(path for path in (folder / ".snakemake/metadata").rglob("*") if path.is_file())
    return found[rng.integers(len(found))]


def snakemake(folder, log):
    """Start a run, which writes what it says to a file."""
    words = [sys.executable, "-m", "snakemake", "--configfile", "my.yaml"]
    with log.open("w") as out:
        return subprocess.Popen(words, cwd=folder, env=environment(folder), stdout=out, stderr=subprocess.STDOUT)


def remove(path):
    """Remove a file or a folder, which may be gone by now."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def test_what_vanishes_while_snakemake_runs_is_named_and_made_again(finished_run, tmp_path):
    rng = np.random.default_rng(6)
    folder, log = tmp_path / "checkout", tmp_path / "log"
    shutil.copytree(finished_run, folder, symlinks=True)
    good = made(folder)
    assert len(good) > 100
    for number in range(ROUNDS):
        stage = AGAIN[number % len(AGAIN)]
        for path in files_of(folder, ".parquet", TENSORS):
            if path.stem == stage:
                path.unlink()
        run = snakemake(folder, log)
        removed = []
        while run.poll() is None:
            time.sleep(rng.uniform(1, 8))
            removed.append(victim(folder, rng))
            remove(removed[-1])
        for path, content in made(folder).items():
            assert content == good[path], f"{path} is wrong after {removed} vanished"
        if run.returncode:
            said = log.read_text()
            assert NAMED.search(said), f"{removed}: {said[-2000:]}"
        assert snakemake(folder, log).wait() == 0, log.read_text()[-2000:]
        found = made(folder)
        # Tensors are made again only where something is to be made from them.
        assert {path for path in good if path not in found} <= {path for path in good if path.endswith(TENSORS)}
        assert all(content == good[path] for path, content in found.items())
        assert removed
