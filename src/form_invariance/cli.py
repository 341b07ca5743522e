"""The commands of form-invariance. Each rule of the workflow calls one; each also runs by hand."""

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from form_invariance import __version__
from form_invariance.errors import UserError

_ROOT = Path(__file__).parent


@cache
def command_modules() -> dict[str, str]:
    """The module of each command: FOLDER/command.py is the command FOLDER, NAME_command.py the command NAME.

    Each module defines the function of the command's name; its parameters are the command's options, and its
    docstring is the help. A module without this function has several, the command's actions.
    """
    found = {}
    for path in sorted(_ROOT.rglob("*command.py")):
        name = path.parent.name if path.stem == "command" else path.stem.removesuffix("_command")
        found[name.replace("_", "-")] = ".".join(
            ["form_invariance", *path.relative_to(_ROOT).with_suffix("").parts]
        )
    return dict(sorted(found.items()))


def functions_of(name: str) -> dict[str, Callable[..., Any]]:
    """The functions of a command by action; a command without actions has one, by its own name."""
    module = import_module(command_modules()[name])
    own = {key: value for key, value in vars(module).items() if _is_command(module, key, value)}
    function = name.replace("-", "_")
    return {name: own[function]} if function in own else own


def _is_command(module: ModuleType, name: str, value: object) -> bool:
    return callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__


def command_line(words: list[str]) -> App:
    """The command line, with the chosen command alone, so that a light command does not import torch."""
    app = App(
        name="form_invariance",
        help=__doc__,
        version=__version__,
        help_format="plaintext",
        result_action="return_none",
        suppress_keyboard_interrupt=False,
        # A list takes every word up to the next option, or none. Of an option given twice the last one counts.
        default_parameter=Parameter(
            consume_multiple=True, allow_repeating=True, negative_iterable=(), show_default=False
        ),
    )
    modules = command_modules()
    for name in words[:1] if words and words[0] in modules else modules:
        functions = functions_of(name)
        if name in functions:
            app.command(functions[name], name=name)
        else:
            actions = App(name=name, help=sys.modules[modules[name]].__doc__)
            for action, function in functions.items():
                actions.command(function, name=action)
            app.command(actions)
    return app


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
    if words[:1] == ["job-server"] and words[1:] and not words[1].startswith("-"):
        words = ["job-server", "--", *words[1:]]  # the program's own --help and -- are not ours
    try:
        command_line(words)(words, exit_on_error=False, print_error=False)
    except (UserError, CycloptsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if str(error.name).startswith("form_invariance"):
            raise
        print(f"error: {error}; install form-invariance with its extra [workflow]", file=sys.stderr)
        return 2
    return 0
