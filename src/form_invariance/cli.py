"""The commands of form-invariance. Each rule of the workflow calls one; each also runs by hand."""

import argparse
import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from form_invariance import __version__
from form_invariance.errors import UserError

_ROOT = Path(__file__).parent


@cache
def command_modules() -> dict[str, str]:
    """The module of each command: FOLDER/command.py is the command FOLDER, NAME_command.py the command NAME.

    Each module defines `add_arguments(parser)` and `run(arguments)`; its docstring is the command's help.
    """
    found = {}
    for path in sorted(_ROOT.rglob("*command.py")):
        name = path.parent.name if path.stem == "command" else path.stem.removesuffix("_command")
        found[name.replace("_", "-")] = ".".join(
            ["form_invariance", *path.relative_to(_ROOT).with_suffix("").parts]
        )
    return dict(sorted(found.items()))


def command_module(name: str) -> ModuleType:
    """Import the module of a command."""
    return import_module(command_modules()[name])


def main(argv: list[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit status: 0, or 2 after a mistake of the user.
    """
    # Figures become files. A notebook's own backend, which its environment names, may be missing here.
    os.environ["MPLBACKEND"] = "agg"
    # NumPy's products are small, and its threads spin on a busy machine; PyTorch's threads are counted elsewhere.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if argv is None else argv
    modules = command_modules()
    parser = argparse.ArgumentParser(prog="form_invariance", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Import the chosen command alone, so that a light command does not import torch.
    for name in words[:1] if words and words[0] in modules else modules:
        module = command_module(name)
        text = module.__doc__ or ""
        module.add_arguments(commands.add_parser(name, help=text.partition("\n")[0], description=text))
    try:
        arguments = parser.parse_args(words)
        command_module(arguments.command).run(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if str(error.name).startswith("form_invariance"):
            raise
        print(f"error: {error}; install form-invariance with its extra [workflow]", file=sys.stderr)
        return 2
    return 0
