"""Snakemake, or another program, with a server for the commands that it starts."""

import argparse

HELP = "run a program, usually snakemake, and start the commands that it runs without importing the libraries anew"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="its command line")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.workflow.job_server import serve

    if not arguments.program:
        raise UserError("job-server: name the program to run, for instance: job-server snakemake --cores 2")
    raise SystemExit(serve(arguments.program))
