"""A digest of the source that a command runs, so that a change of it re-runs what it touches and no more."""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

_PACKAGE = "form_invariance"
_ROOT = Path(__file__).parent
_PAGE_SUFFIXES = (".html", ".css", ".js")


def _file(module: str) -> Path | None:
    """The file of a module of the package, or None where there is none."""
    path = _ROOT.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def _statements(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those inside others too. Expressions hold no import, and are most of a tree."""
    for node in nodes:
        yield node
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from _statements(getattr(node, block, ()))


@cache
def _imports(module: str) -> frozenset[str]:
    """The package's modules that a module imports anywhere in its text, inside functions too."""
    path = _file(module)
    assert path is not None
    found = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8")).body):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == _PACKAGE:
                found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return frozenset(name for name in found if _file(name))


def modules_of(command: str) -> list[str]:
    """The package's modules that a command imports, transitively, sorted.

    Args:
        command: as on the command line, for instance ``mean-cache``.
    """
    start = f"{_PACKAGE}.commands.{command.replace('-', '_')}"
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(_imports(module))
    # The package's own version string is provenance, not science.
    return sorted(seen - {_PACKAGE})


def _page_files(folder: Path) -> list[Path]:
    """Parts of HTML pages that lie beside the modules that put them together."""
    return sorted(path for path in folder.iterdir() if path.suffix in _PAGE_SUFFIXES)


def source_digest(command: str) -> str:
    """Digest of the contents of the modules of `modules_of(command)`, and of the page files beside them."""
    digest = hashlib.sha256()
    folders = set()
    for module in modules_of(command):
        path = _file(module)
        assert path is not None
        folders.add(path.parent)
        digest.update(module.encode() + b"\0" + path.read_bytes() + b"\0")
    for path in (page for folder in sorted(folders) for page in _page_files(folder)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
