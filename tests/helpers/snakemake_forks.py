"""Runs of Snakemake, each in a fork of one process that has imported it: imports are half of a dry run."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SECONDS = 900


def serve() -> None:
    """Run what each line of standard input asks for; answer with its exit status."""
    # These three Snakemake imports only when it needs them.
    import jsonschema  # noqa: F401
    import smart_open.http  # noqa: F401
    import snakemake.report  # noqa: F401
    from snakemake import cli

    cli.get_argument_parser()  # finds the plugins
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            request = json.loads(line)
            words = request.pop("words")
            _become(**request)
            sys.exit(cli.main(words))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(folder: str, environment: dict[str, str], output: str) -> None:
    """Make this process what `python -m snakemake > OUTPUT 2>&1` would be in a folder and an environment."""
    written = os.open(output, os.O_WRONLY)
    for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, written), (2, written)):
        os.dup2(source, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    added = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = [folder, *added]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    tempfile.tempdir = None
    signal.alarm(SECONDS)


@cache
def _server() -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, __file__]
    server = subprocess.Popen(command, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


def run(words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit status of Snakemake (negative: the signal that ended it), and all that it printed."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile() as output:
        request = {"words": words, "folder": str(folder), "environment": environment, "output": output.name}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline()), Path(output.name).read_text()


if __name__ == "__main__":
    serve()
