"""The commands of form-invariance. Each rule of the workflow calls one; each also runs by hand."""

import ast
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache, wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_type_hints

from cyclopts import App, CycloptsError, Parameter

from form_invariance import __version__
from form_invariance.errors import UserError

if TYPE_CHECKING:
    from form_invariance.tables.lineage import Option

_ROOT = Path(__file__).parent


@cache
def command_modules() -> dict[str, str]:
    """The module of each command: FOLDER/command.py is the command FOLDER, NAME_command.py the command NAME.

    Each module defines a function with the command's name, whose parameters are the options and whose docstring is
    the help. A module without this function has one function for each action of the command.
    """
    modules = {}
    for path in sorted(_ROOT.rglob("*command.py")):
        name = path.parent.name if path.stem == "command" else path.stem.removesuffix("_command")
        modules[name.replace("_", "-")] = ".".join(
            ["form_invariance", *path.relative_to(_ROOT).with_suffix("").parts]
        )
    return dict(sorted(modules.items()))


def functions_of(name: str) -> dict[str, Callable[..., Any]]:
    """The functions of a command by action; a command without actions has one function, under its own name."""
    module = import_module(command_modules()[name])
    functions = {key: value for key, value in vars(module).items() if _is_command(module, key, value)}
    function = name.replace("-", "_")
    return {name: functions[function]} if function in functions else functions


def _is_command(module: ModuleType, name: str, value: object) -> bool:
    return callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__


def _of_one_run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command's function refuse input files that are not of one run (`tables.one_run`)."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        from form_invariance.experiment.options import recorded
        from form_invariance.tables import lineage, one_run

        values = signature(function).bind(*args, **kwargs).arguments
        settings = recorded(values)
        sizes = {name: settings[name] for name in ("k", "k_shown") if settings.get(name) is not None}
        listed = {name: size if isinstance(size, list) else [size] for name, size in sizes.items()}
        inputs = dict(_inputs(values, get_type_hints(function, include_extras=True)))
        with lineage.running(one_run.begin(inputs, settings, listed)):
            function(*args, **kwargs)

    return run


def _inputs(values: Mapping[str, Any], hints: Mapping[str, Any]) -> Iterator[tuple[str, "Option"]]:
    """The input files of a command by the name of their option."""
    from form_invariance.tables.lineage import OfAnyCell, OfAnyModel, Option

    for name, value in values.items():
        if is_dataclass(value):
            yield from _inputs(vars(value), {})
        elif "output" not in name:
            values_of_option = value if isinstance(value, tuple) else (value,)
            marks = {OfAnyCell, OfAnyModel}.intersection(getattr(hints.get(name), "__metadata__", ()))
            yield name, Option([path for path in values_of_option if isinstance(path, Path)], *marks)


def command_line(words: list[str]) -> App:
    """The command line. Only the chosen command's module is imported: importing all would load torch."""
    app = App(
        name="form_invariance",
        help=__doc__,
        version=__version__,
        help_format="plaintext",
        result_action="return_none",
        suppress_keyboard_interrupt=False,
        # A list takes every word up to the next option. If an option is given twice, the last value counts.
        default_parameter=Parameter(
            consume_multiple=True, allow_repeating=True, negative_iterable=(), show_default=False
        ),
    )
    modules = command_modules()
    if not words or words[0] not in modules:
        for name, module in modules.items():
            app.command(App(name=name, help=_help_of(name, module)))
        return app
    name, functions = words[0], functions_of(words[0])
    if name in functions:
        app.command(_of_one_run(functions[name]), name=name)
    else:
        actions = App(name=name, help=sys.modules[modules[name]].__doc__)
        for action, function in functions.items():
            actions.command(_of_one_run(function), name=action)
        app.command(actions)
    return app


def _help_of(command: str, module: str) -> str:
    """The first line of a command's help, read without importing its module."""
    tree = ast.parse((_ROOT.parent / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    function = next((node for node in functions if node.name == command.replace("-", "_")), tree)
    return (ast.get_docstring(function) or "").partition("\n")[0]


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the exit status: 0, or 2 after a mistake of the user."""
    # Figures become files. The environment may name a notebook's backend, which may be missing here.
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
