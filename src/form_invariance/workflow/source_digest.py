"""A digest of the definitions that a command reaches, so that a change re-runs what it affects and nothing else.

A command reaches the definitions that its function names, those that these name, and so on. Statements of a module
that define nothing run when it is imported, so they count for every module that is imported.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from form_invariance.cli import command_modules
from form_invariance.workflow.definitions import EVERYTHING, LOOSE, Reference, digest, read

_PACKAGE = "form_invariance"
_ROOT = Path(__file__).parents[1]
NO_DATA = (".py", ".pyc", ".md")
"""Suffixes of files that no module reads from its own folder."""
_TEXT = "text that the command prints"
MADE: dict[str, Mapping[str, str]] = {}
"""For each digest that `source_digest` made: the digests of its definitions and data files, by name."""


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of the package, or None if the package has no such module."""
    package, *parts = module.split(".")
    path = _ROOT.joinpath(*parts)
    files = (path.with_suffix(".py"), path / "__init__.py") if package == _PACKAGE else ()
    return next((file for file in files if file.exists()), None)


def _resolved(module: str, name: str) -> Iterator[Reference]:
    """The definitions, here or in another module, that a name in a module refers to."""
    if not (path := file_of(module)):
        return
    source = read(path)
    if name == EVERYTHING:
        yield from ((module, defined_name) for defined_name in source.definitions)
    elif name in source.definitions:
        yield module, name
    elif name in source.imports:
        yield from _member(*source.imports[name])
    elif file_of(f"{module}.{name}"):
        yield from _resolved(f"{module}.{name}", EVERYTHING)


def _member(module: str, name: str) -> Iterator[Reference]:
    """The definitions that an imported name refers to: for a module, all of its definitions."""
    yield from (
        _resolved(f"{module}.{name}", EVERYTHING) if file_of(f"{module}.{name}") else _resolved(module, name)
    )


@cache
def _next(module: str, name: str) -> frozenset[Reference]:
    """The definitions that a definition names, and the loose statements of the modules that it imports."""
    path = file_of(module)
    assert path is not None
    source, references = read(path), {(module, LOOSE)}
    needed = [*source.imports.values()] if name == LOOSE else []
    if definition := source.definitions.get(name):
        aliases = source.imports | definition.imports
        for used in definition.names:
            if used in source.definitions:
                references.add((module, used))
            if used in aliases:
                references.update(_member(*aliases[used]))
        for used, attribute in definition.attributes:
            if used in source.definitions:
                references.add((module, used))
            if used in aliases:
                owner, member = aliases[used]
                owner = owner if member == EVERYTHING else f"{owner}.{member}"
                references.update(_resolved(owner, attribute) if file_of(owner) else _member(*aliases[used]))
        needed += definition.imports.values()
    references.update(
        (part, LOOSE) for owner, member in needed for part in (owner, f"{owner}.{member}") if file_of(part)
    )
    # The package's version string is provenance, not science.
    return frozenset(reference for reference in references if reference[0] != _PACKAGE)


def reached(starts: Iterable[Reference]) -> set[Reference]:
    """The given definitions, and all that they reach."""
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
    definitions = read(path).definitions
    functions = (
        [function]
        if function in definitions
        else [name for name in definitions if name and not name.startswith("_")]
    )
    named = [f"{_PACKAGE}.{name}".partition(":") for name in more]
    return [(module, name) for name in functions] + [
        reference for owner, _, name in named for reference in _resolved(owner, name or EVERYTHING)
    ]


def source_digest(command: str, *more: str, text: str = "") -> str:
    """Digest of the definitions that a command reaches, and of the data files in the folders of their modules.

    Args:
        command, more: as in `starts_of`.
        text: from the source, that the command prints.
    """
    parts, folders = {_TEXT: digest(text)} if text else {}, set()
    for module, name in sorted(reached(starts_of(command, *more))):
        path = file_of(module)
        assert path is not None
        folders.add(path.parent)
        source = read(path)
        if definition := source.definitions.get(name):
            key = ".".join(filter(None, [module.removeprefix(f"{_PACKAGE}."), name]))
            parts[key] = definition.digest(source.imports)
    parts |= {str(file.relative_to(_ROOT)): _of_data(file) for folder in folders for file in _data(folder)}
    code = digest(repr(sorted(parts.items())))
    MADE[code] = parts
    return code


@cache
def _data(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and file.suffix not in NO_DATA)


@cache
def _of_data(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def package_digest() -> str:
    """Digest of all code and data of the package."""
    parts: dict[str, object] = {}
    for path in sorted(_ROOT.rglob("*")):
        if path.suffix == ".py":
            source = read(path)
            definitions = sorted(
                (name, definition.digest(source.imports)) for name, definition in source.definitions.items()
            )
            parts[str(path.relative_to(_ROOT))] = definitions, source.imports
        elif path.is_file() and path.suffix not in NO_DATA:
            parts[str(path.relative_to(_ROOT))] = _of_data(path)
    return digest(repr(sorted(parts.items())))
