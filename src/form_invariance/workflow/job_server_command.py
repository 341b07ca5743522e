"""The job server."""

from typing import Annotated

from cyclopts import Parameter

from form_invariance.errors import UserError


def job_server(*program: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
    """Run a program, usually snakemake; the commands that it starts do not import the libraries anew.

    Args:
        program: its command line
    """
    from form_invariance.workflow.job_server import serve

    if not program:
        raise UserError("job-server: name the program to run, for instance: job-server snakemake --cores 2")
    raise SystemExit(serve(list(program)))
