"""A digest of the source that a command runs, so that a change re-runs what it affects and nothing else."""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from form_invariance.cli import command_modules

_PACKAGE = "form_invariance"
_ROOT = Path(__file__).parents[1]
DATA_SUFFIXES = (".html", ".css", ".js", ".csv")
"""Files that a module reads from its own folder."""


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of the package, or None if the package has no such module."""
    path = _ROOT.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


class _Code(ast.NodeTransformer):
    """Leaves out what changes no result, docstrings and blocks for types alone, and collects what is imported."""

    def __init__(self) -> None:
        self.imported: set[str] = set()

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if for_types else self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST:
        self.imported |= {alias.name for alias in node.names}
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module and not node.level:
            self.imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return node


@cache
def _read(path: Path) -> tuple[bytes, frozenset[str]]:
    """What of a Python file can change a result, and the names that it imports anywhere in its text."""
    code = _Code()
    tree = code.visit(ast.parse(path.read_text(encoding="utf-8")))
    return ast.dump(tree).encode(), frozenset(code.imported)


@cache
def imports_of(module: str) -> frozenset[str]:
    """The package's modules that a module imports anywhere in its text, inside functions too."""
    path = file_of(module)
    assert path is not None
    found = set()
    for name in _read(path)[1]:
        parts = name.split(".")
        if parts[0] == _PACKAGE:
            found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return frozenset(name for name in found if file_of(name))


def modules_of(command: str, *more: str) -> list[str]:
    """The package's modules that a command imports, transitively, sorted.

    Args:
        command: as on the command line, for instance ``mean-cache``.
        more: modules of the package that the command imports by name, for instance ``stages.overlap.figure``.
    """
    seen: set[str] = set()
    waiting = [command_modules()[command], *(f"{_PACKAGE}.{name}" for name in more)]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(imports_of(module))
    # The package's version string is provenance, not science.
    return sorted(seen - {_PACKAGE})


def source_digest(command: str, *more: str) -> str:
    """Digest of the code of `modules_of`, and of the data files in their folders."""
    paths = [path for module in modules_of(command, *more) if (path := file_of(module))]
    data = {file for path in paths for file in path.parent.iterdir() if file.suffix in DATA_SUFFIXES}
    return digest_of([*paths, *sorted(data)])


def digest_of(paths: Iterable[Path]) -> str:
    """Digest of the code and data in some files of the package."""
    digest = hashlib.sha256()
    for path in paths:
        content = _read(path)[0] if path.suffix == ".py" else path.read_bytes()
        digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]
