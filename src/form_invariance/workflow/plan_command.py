"""What is pending."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Annotated

from cyclopts import Parameter, validators

from form_invariance.errors import UserError
from form_invariance.workflow import config_check, job_sizes
from form_invariance.workflow import plan as planned
from form_invariance.workflow.given import merged
from form_invariance.workflow.paths import default_folder

_SAID_ALWAYS = ("Using ", "Assuming ", "Building DAG", "host: ", "warning: ")
"""Starts of lines that Snakemake prints whether or not it fails."""


def plan(
    *targets: str,
    directory: Annotated[Path, Parameter(alias="-d")] = Path(),
    configfile: tuple[str, ...] = (),
    config: tuple[str, ...] = (),
    tflops: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
) -> None:
    """Print what snakemake would run: pending jobs of each rule and model, why, and the estimated time.

    Run it in the folder where snakemake would run.

    Args:
        targets: as for snakemake; default: everything
        directory: as for snakemake: the folder that contains results
        configfile: as for snakemake
        config: KEY=VALUE, as for snakemake
        tflops: rate at which a job that never ran computes, in 1e12 operations per second
    """
    rate = tflops * 1e12 if tflops else None
    if not directory.is_dir():
        raise UserError(f"--directory: there is no folder {str(directory)!r}")
    if odd := [item for item in config if not re.match(r"[A-Za-z_][\w-]*\w=", item)]:
        raise UserError(
            f"--config {odd[0]}: write KEY=VALUE; Snakemake refuses keys of one letter there, so write such a key "
            "into a file and give the file with --configfile"
        )
    user_config = merged(configfile, config)
    words = [*targets, f"--directory={directory}"]
    for option, values in (("--configfile", configfile), ("--config", config)):
        words += [option, *values] if values else []
    listings = [_dry_run([*words, *more]) for more in (["--forceall"], [])]
    all_jobs, pending = (planned.jobs(listing, directory) for listing in listings)
    whole = {**config_check.load(default_folder() / "config.yaml"), **user_config}
    # --tflops estimates for another machine.
    on_gpu = rate is not None or gpu_here(default_folder())
    table = planned.make(pending, all_jobs, directory, whole, rate, gpu_here=on_gpu)
    said = [planned.table(table), planned.assumptions(table, whole, rate), *planned.unseen(whole)]
    if rate is None and table["on_gpu"].any() and not job_sizes.has_gpu():
        said.append(
            "No GPU is here. Jobs count as those of a cluster, because sbatch or config/cluster.yaml is here; "
            "device: cpu counts them as this machine's."
        )
    print(*filter(None, said), *planned.warnings(listings[1]), sep="\n")


def gpu_here(config_folder: Path) -> bool:
    """Whether jobs with `device: auto` run on a GPU: jobs started from a login node do, though it has no GPU."""
    return job_sizes.has_gpu() or which("sbatch") is not None or (config_folder / "cluster.yaml").exists()


def _dry_run(words: Sequence[str]) -> str:
    call = [sys.executable, "-m", "snakemake", "--dry-run", *words]
    done = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        # Snakemake reports errors on either stream.
        output = (done.stdout + done.stderr).splitlines()
        lines = (line.strip() for line in output if not line.startswith(_SAID_ALWAYS))
        raise UserError(" ".join(filter(None, lines)).removeprefix("error: ") or "snakemake --dry-run failed")
    return done.stdout + done.stderr
