"""The command that prints the plan of a run."""

import argparse
from pathlib import Path

HELP = "print what snakemake would run: pending jobs of each rule and model, why, and the estimated time"
_SNAKEFILES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="as for snakemake; default: everything")
    parser.add_argument(
        "--directory", "-d", type=Path, default=Path(), help="as for snakemake: the folder that contains results"
    )
    parser.add_argument("--configfile", nargs="+", default=[], help="as for snakemake")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as for snakemake")


def run(arguments: argparse.Namespace) -> None:
    """Run the command in the folder where snakemake would run."""
    from form_invariance.errors import UserError
    from form_invariance.workflow import config_check, plan

    if not any(Path(name).exists() for name in _SNAKEFILES):
        raise UserError(f"there is no Snakefile in {Path.cwd()}; run this in the checkout")
    for path in arguments.configfile:
        # Snakemake does not name a file that it cannot read.
        config_check.load(Path(path))
    every = plan.jobs(_dry_run(arguments, "--forceall"))
    pending = plan.jobs(_dry_run(arguments))
    print(plan.table(plan.make(pending, every, arguments.directory)))


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
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith("Using ")]
        raise UserError("\n".join(lines).removeprefix("error: ") or "snakemake --dry-run failed")
    return done.stdout + done.stderr
