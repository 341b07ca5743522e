"""Runs of Snakemake, each in a fork of one process that has imported what it needs: most of a dry run's time."""

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
SOURCE = Path(__file__).parents[2] / "src"


def serve() -> None:
    """Run what each line of standard input asks for; answer with its exit status."""
    # Snakemake imports these three only when it needs them.
    import jsonschema  # noqa: F401
    import smart_open.http  # noqa: F401
    import snakemake.report  # noqa: F401
    from snakemake import cli

    cli.get_argument_parser()  # finds the plugins
    known = _known()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            request = json.loads(line)
            words = request.pop("words")
            _become(**request)
            _remember(known)
            sys.exit(cli.main(words))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _known() -> dict[bytes, object]:
    """What `source_digest` reads in each source file, by the file's bytes. The libraries stay imported."""
    sys.path.insert(0, str(SOURCE))
    from transformers import AutoTokenizer

    from form_invariance.model.files import PACKAGED
    from form_invariance.workflow import definitions, job_costs, model_checks  # noqa: F401

    AutoTokenizer.from_pretrained(PACKAGED / "embedded-shared")  # this imports much
    known = {path.read_bytes(): definitions.read(path) for path in SOURCE.rglob("*.py")}
    for name in [name for name in sys.modules if name.partition(".")[0] == "form_invariance"]:
        del sys.modules[name]
    del sys.path[0]
    return known


def _remember(known: dict[bytes, object]) -> None:
    """Keep a checkout's source digest from parsing files again that are the same here."""
    if (Path(sys.path[1]) / "form_invariance").exists():
        from form_invariance.workflow import definitions, source_digest

        read = definitions.read
        source_digest.read = cache(lambda path: known.get(path.read_bytes()) or read(path))


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
    with tempfile.NamedTemporaryFile() as output:
        request = {"words": words, "folder": str(folder), "environment": environment, "output": output.name}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline()), Path(output.name).read_text()


if __name__ == "__main__":
    serve()
