"""Print what snakemake would run: pending jobs of each rule and model, why, and the estimated time."""

import argparse
import re
from pathlib import Path

_SAID_ALWAYS = ("Using ", "Assuming ", "Building DAG", "host: ", "warning: ")
"""How lines begin that Snakemake prints whether or not it fails."""
_SNAKEFILES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="as for snakemake; default: everything")
    parser.add_argument(
        "--directory", "-d", type=Path, default=Path(), help="as for snakemake: the folder that contains results"
    )
    parser.add_argument("--configfile", nargs="+", default=[], help="as for snakemake")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as for snakemake")
    parser.add_argument(
        "--tflops", type=float, help="rate at which a job that never ran computes, in 1e12 operations per second"
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the command in the folder where snakemake would run."""
    from form_invariance.errors import UserError
    from form_invariance.workflow import config_check, partitions, plan
    from form_invariance.workflow.given import merged
    from form_invariance.workflow.paths import default_folder

    if not any(Path(name).exists() for name in _SNAKEFILES):
        raise UserError(f"there is no Snakefile in {Path.cwd()}; run this in the checkout")
    if arguments.tflops is not None and arguments.tflops <= 0:
        raise UserError("--tflops must be above 0")
    rate = arguments.tflops * 1e12 if arguments.tflops else None
    if not arguments.directory.is_dir():
        raise UserError(f"--directory: there is no folder {str(arguments.directory)!r}")
    if odd := [item for item in arguments.config if not re.match(r"[A-Za-z_][\w-]*\w=", item)]:
        raise UserError(
            f"--config {odd[0]}: write KEY=VALUE; Snakemake refuses keys of one letter there, so write such a key "
            "into a file and give the file with --configfile"
        )
    given = merged(arguments.configfile, arguments.config)
    listings = [_dry_run(arguments, *words) for words in (["--forceall"], [])]
    every, pending = (plan.jobs(listing, arguments.directory) for listing in listings)
    config = {**config_check.load(default_folder() / "config.yaml"), **given}
    # With --tflops the question is about another machine.
    on_gpu = rate is not None or gpu_here(default_folder())
    table = plan.make(pending, every, arguments.directory, config, rate, gpu_here=on_gpu)
    said = [plan.table(table), plan.assumptions(table, config, rate), plan.without_records(listings[1])]
    said += partitions.beyond(table, partitions.limits()) + plan.warnings(listings[1])
    print("\n".join(filter(None, said)))


def gpu_here(config_folder: Path) -> bool:
    """Whether jobs with `device: auto` run on a GPU: those of a login node do, though it has none itself."""
    from form_invariance.workflow import job_sizes, partitions

    return job_sizes.has_gpu() or partitions.on_cluster() or (config_folder / "cluster.yaml").exists()


def _dry_run(arguments: argparse.Namespace, *words: str) -> str:
    import subprocess
    import sys

    from form_invariance.errors import UserError

    call = [sys.executable, "-m", "snakemake", *arguments.targets, "--dry-run", *words]
    call.append(f"--directory={arguments.directory}")
    for option in ("configfile", "config"):
        given = vars(arguments)[option]
        call += [f"--{option}", *given] if given else []
    done = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        # Snakemake says on either of them what is wrong.
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        lines = [line for line in said if not line.startswith(_SAID_ALWAYS)]
        raise UserError(
            " ".join(line.strip() for line in lines).removeprefix("error: ") or "snakemake --dry-run failed"
        )
    return done.stdout + done.stderr
