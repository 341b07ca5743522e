"""Run a program, usually snakemake; the commands that it starts do not import the libraries anew."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="its command line")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.workflow.job_server import serve

    if not arguments.program:
        raise UserError("job-server: name the program to run, for instance: job-server snakemake --cores 2")
    raise SystemExit(serve(arguments.program))
