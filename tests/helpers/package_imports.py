"""The package's modules that a module or a command imports, anywhere in its text, except for types."""

import ast
import re
from functools import cache

from stub_checkout import ROOT

from form_invariance.cli import command_modules
from form_invariance.workflow.source_digest import file_of

PACKAGE = "form_invariance"


def modules():
    """The package's files by the names of their modules."""
    source = ROOT / "src"
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def imported_by(path):
    """The full names of what a file imports."""
    text = re.sub(r"^if TYPE_CHECKING:\n(?:(?:    .*)?\n)+", "", path.read_text(), flags=re.MULTILINE)
    nodes = list(ast.walk(ast.parse(text)))
    members = [
        (node.module, name.name) for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names
    ]
    names = {part for module, name in members for part in (module, f"{module}.{name}")}
    return names | {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}


def imports_of(module):
    """The package's modules that a module imports, with the packages that contain them."""
    parts = [name.split(".") for name in imported_by(file_of(module)) if name.split(".")[0] == PACKAGE]
    every = {".".join(part[:end]) for part in parts for end in range(1, len(part) + 1)}
    return {name for name in every if file_of(name)}


def modules_of(command):
    """The package's modules that a command imports, transitively."""
    seen, waiting = set(), [command_modules()[command]]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += imports_of(module)
    return seen
