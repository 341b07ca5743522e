"""A digest of the definitions that a command reaches, so that a change re-runs what it affects and nothing else.

A definition is a function, a class or a constant of a module. A command reaches what its function names, and what
this names in turn. What an import runs besides definitions counts for every module that is imported.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from form_invariance.cli import command_modules

_PACKAGE = "form_invariance"
_ROOT = Path(__file__).parents[1]
DATA_SUFFIXES = (".html", ".css", ".js", ".csv")
"""Files that a module reads from its own folder."""
_WITH_TYPES = ("command", "figure")
"""Ends of the names of modules whose functions' types are read when they run: `cli`, `drawing.figures`."""
_LOOSE = ""
"""The name of a module's statements that define nothing."""

Reference = tuple[str, str]
"""A module, and the name of a definition in it; `_ALL` for all of them."""
_ALL = "*"


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of the package, or None if the package has no such module."""
    package, *parts = module.split(".")
    path = _ROOT.joinpath(*parts)
    files = (path.with_suffix(".py"), path / "__init__.py") if package == _PACKAGE else ()
    return next((file for file in files if file.exists()), None)


class _Code(ast.NodeTransformer):
    """Leaves out what changes no result: docstrings, texts of errors and of help, types for checkers."""

    def __init__(self, with_types: bool) -> None:
        self._with_types = with_types
        self._in_class = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if for_types else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "UserError":
            return ast.Call(node.func, [], [])
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "help"]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns, before = None, self._in_class
        if not self._with_types:
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        self._in_class = False
        visited = self.generic_visit(node)
        self._in_class = before
        return visited

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self._in_class = self._in_class, True
        visited = self.generic_visit(node)
        self._in_class = before
        return visited

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        # Dataclasses read the types of their fields.
        if not self._in_class:
            node.annotation = ast.Constant(None)
        return self.generic_visit(node)


@dataclass(frozen=True)
class _Definition:
    """The code of a definition, and the names in it."""

    code: str
    names: frozenset[str]
    attributes: frozenset[tuple[str, str]]  # NAME.attribute
    imports: dict[str, Reference]  # inside it, by alias


@dataclass(frozen=True)
class _Source:
    """The definitions of a module by name, and its imports by alias."""

    definitions: dict[str, list[_Definition]] = field(default_factory=dict)
    imports: dict[str, Reference] = field(default_factory=dict)


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, Reference]]:
    """What some statements import, by alias: modules, and members of modules (which may be modules, too)."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], (alias.name, _ALL)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds, imports aside."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


def _definition(statement: ast.stmt) -> _Definition:
    nodes = list(ast.walk(statement))
    pairs = {
        (node.value.id, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    inside = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in inside}
    return _Definition(ast.dump(statement), frozenset(names), frozenset(pairs), dict(_imports(nodes)))


@cache
def _read(path: Path) -> _Source:
    """What of a Python file can change a result."""
    with_types = path.stem.endswith(_WITH_TYPES)
    tree = _Code(with_types).visit(ast.parse(path.read_text(encoding="utf-8")))
    source = _Source()
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            source.imports.update(_imports([statement]))
        else:
            definition = _definition(statement)
            for name in _bound(statement) or {_LOOSE}:
                source.definitions.setdefault(name, []).append(definition)
    return source


def _resolved(module: str, name: str) -> Iterator[Reference]:
    """The definitions that a name of a module stands for, whichever module defines it."""
    if not (path := file_of(module)):
        return
    source = _read(path)
    if name == _ALL:
        yield from ((module, own) for own in source.definitions)
    elif name in source.definitions:
        yield module, name
    elif name in source.imports:
        yield from _member(*source.imports[name])
    elif file_of(f"{module}.{name}"):
        yield from _resolved(f"{module}.{name}", _ALL)


def _member(module: str, name: str) -> Iterator[Reference]:
    """What an imported name stands for: a module as a value counts in full."""
    yield from _resolved(f"{module}.{name}", _ALL) if file_of(f"{module}.{name}") else _resolved(module, name)


@cache
def _next(module: str, name: str) -> frozenset[Reference]:
    """The definitions that a definition names, and the loose statements of the modules that it needs."""
    path = file_of(module)
    assert path is not None
    source, found = _read(path), set[Reference]()
    for definition in source.definitions.get(name, []):
        aliases = source.imports | definition.imports
        for used in definition.names:
            found |= set(_resolved(module, used) if used in source.definitions else ())
            found |= set(_member(*aliases[used]) if used in aliases else ())
        for used, attribute in definition.attributes:
            found |= {(module, used)} if used in source.definitions else set()
            if used in aliases:
                owner, member = aliases[used]
                owner = owner if member == _ALL else f"{owner}.{member}"
                found |= set(_resolved(owner, attribute) if file_of(owner) else _member(*aliases[used]))
        for owner, member in definition.imports.values():
            found |= {(one, _LOOSE) for one in (owner, f"{owner}.{member}") if file_of(one)}
    found |= {(module, _LOOSE)}
    if name == _LOOSE:
        for owner, member in source.imports.values():
            found |= {(one, _LOOSE) for one in (owner, f"{owner}.{member}") if file_of(one)}
    # The package's version string is provenance, not science.
    return frozenset(reference for reference in found if reference[0] != _PACKAGE)


def reached(starts: Iterable[Reference]) -> set[Reference]:
    """Some definitions, and all that they reach."""
    seen, waiting = set[Reference](), list(starts)
    while waiting:
        reference = waiting.pop()
        if reference not in seen:
            seen.add(reference)
            waiting.extend(_next(*reference))
    return seen


def starts_of(command: str, *more: str) -> list[Reference]:
    """The functions of a command, and definitions that it imports by name.

    Args:
        command: as on the command line, for instance ``mean-cache``, or with its action: ``heuristics draw``.
        more: modules of the package, for instance ``stages.overlap.figure``, or MODULE:NAME for a definition.
    """
    name, _, action = command.partition(" ")
    module, function = command_modules()[name], action or name.replace("-", "_")
    path = file_of(module)
    assert path is not None
    known = _read(path).definitions
    own = [function] if function in known else [name for name in known if name and not name.startswith("_")]
    named = [f"{_PACKAGE}.{name}".partition(":") for name in more]
    return [(module, name) for name in own] + [
        reference for owner, _, name in named for reference in _resolved(owner, name or _ALL)
    ]


def source_digest(command: str, *more: str, text: str = "") -> str:
    """Digest of the definitions that a command reaches, and of the data files in the folders of their modules.

    Args:
        command, more: as in `starts_of`.
        text: that the command reads of the source and prints.
    """
    digest, modules = hashlib.sha256(text.encode()), set()
    for module, name in sorted(reached(starts_of(command, *more))):
        path = file_of(module)
        assert path is not None
        modules.add(path)
        for definition in _read(path).definitions.get(name, []):
            digest.update(f"{module}.{name}\0{definition.code}\0".encode())
    data = {file for path in modules for file in path.parent.iterdir() if file.suffix in DATA_SUFFIXES}
    for file in sorted(data):
        digest.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def digest_of(paths: Iterable[Path]) -> str:
    """Digest of all code and data in some files of the package."""
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".py":
            source = _read(path)
            content = repr((sorted(source.definitions.items()), sorted(source.imports.items()))).encode()
        digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]
