"""The command line: one command for each stage, so that every step can be run by hand."""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from form_invariance import __version__
from form_invariance.errors import UserError

_COMMANDS = Path(__file__).parent / "commands"


def command_names() -> list[str]:
    """The names of all commands: the modules of `form_invariance.commands` that define `run`."""
    return sorted(
        path.stem.replace("_", "-")
        for path in _COMMANDS.glob("*.py")
        if path.stem != "__init__" and not path.stem.endswith("arguments")
    )


def _module(name: str) -> ModuleType:
    return import_module(f"form_invariance.commands.{name.replace('-', '_')}")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, or 2 for a user's mistake."""
    argv = sys.argv[1:] if argv is None else argv
    names = command_names()
    parser = argparse.ArgumentParser(prog="form_invariance", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Only the chosen command is imported, so that a light one does not wait for torch.
    wanted = argv[0] if argv and argv[0] in names else None
    for name in [wanted] if wanted else names:
        module = _module(name)
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP))
    arguments = parser.parse_args(argv)
    try:
        _module(arguments.command).run(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
