"""The definitions of a Python file: the code in them that can change a result, and the names that they use.

A definition is a function, a class or a constant of a module. Docstrings, messages of a `UserError`, help texts
and types for checkers change no result. (A preflight writes a message into its table, but then the run stops.)
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_WITH_TYPES = "command"
"""End of the names of modules of commands: `cli` reads the types of their functions' arguments."""
_BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try)
"""Statements of a module that count whenever it is imported, whatever they bind."""
LOOSE = ""
"""The name of a module's statements that define nothing."""
EVERYTHING = "*"

Reference = tuple[str, str]
"""A module and the name of a definition in it, or `EVERYTHING`."""


@dataclass
class Definition:
    """The statements that bind a name of a module.

    Attributes:
        parts: the syntax of the statements, in order.
        names: names in the statements.
        attributes: (NAME, attribute) for each NAME.attribute in them.
        imports: imports in them, by alias.
    """

    parts: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    attributes: set[Reference] = field(default_factory=set)
    imports: dict[str, Reference] = field(default_factory=dict)

    def digest(self, imports: Mapping[str, Reference]) -> str:
        """Digest of `parts`, and of the origins of the names; `imports` are those of the module."""
        origins = {**imports, **self.imports}
        imported = origins.keys() & (self.names | {name for name, _ in self.attributes})
        return digest("\0".join([*self.parts, *(repr((name, origins[name])) for name in sorted(imported))]))


@dataclass(frozen=True)
class ModuleSource:
    """The definitions of a module by name, and its imports by alias."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, Reference] = field(default_factory=dict)


def digest(text: str) -> str:
    """Digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def read(path: Path) -> ModuleSource:
    """The definitions of a Python file."""
    with_types = path.stem.endswith(_WITH_TYPES)
    source = ModuleSource()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            source.imports.update(_imports(statement))
            continue
        definition = Definition()
        _add(definition, statement, with_types, in_class=False)
        names = bound(statement) or {LOOSE}
        if isinstance(statement, _BLOCKS):
            names.add(LOOSE)
            source.imports.update(definition.imports)
        # A docstring has no parts.
        for name in sorted(names) if definition.parts else ():
            merged = source.definitions.setdefault(name, Definition())
            merged.parts += definition.parts
            merged.names |= definition.names
            merged.attributes |= definition.attributes
            merged.imports |= definition.imports
    return source


def bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds, imports aside."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, _BLOCKS):
        blocks = [statement, *getattr(statement, "handlers", ())]
        parts = [getattr(block, part, []) for block in blocks for part in ("body", "orelse", "finalbody")]
        return {name for part in parts for inner in part for name in bound(inner)}
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", ast.Pass())]
    nodes = (node for target in targets for node in ast.walk(target))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Reference]]:
    """What a statement imports, by alias: modules, and members of modules, which may be modules, too."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], (alias.name, EVERYTHING)
    elif node.module and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, (node.module, alias.name)


def _changes_nothing(node: ast.AST) -> bool:
    """Whether a node is a docstring, a block for type checkers, or a help text."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not node.orelse
    return isinstance(node, ast.keyword) and node.arg == "help"


def _is_error(node: ast.AST) -> bool:
    """Whether a node makes a `UserError`, which ends the command without a result."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UserError"


def _add(definition: Definition, node: ast.AST, with_types: bool, in_class: bool) -> None:
    """Add a node, with the nodes inside it, to a definition.

    Args:
        with_types: whether the types of arguments count.
        in_class: whether the node is in the body of a class, where the types of fields count.
    """
    if _changes_nothing(node):
        return
    definition.parts.append(type(node).__name__)
    if _is_error(node):
        return
    skipped = {"ctx"}
    if isinstance(node, ast.Name):
        definition.names.add(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        definition.attributes.add((node.value.id, node.attr))
        definition.parts += [node.value.id, node.attr]
        return
    elif isinstance(node, ast.Import | ast.ImportFrom):
        definition.imports.update(_imports(node))
    elif isinstance(node, ast.FunctionDef):
        skipped, in_class = {"returns"}, False
    elif isinstance(node, ast.ClassDef):
        in_class = True
    elif (isinstance(node, ast.arg) and not with_types) or (isinstance(node, ast.AnnAssign) and not in_class):
        skipped = {"annotation"}
    for name in node._fields:
        if name not in skipped:
            value = getattr(node, name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.AST):
                    _add(definition, item, with_types, in_class)
                else:
                    definition.parts.append(repr(item))
            definition.parts.append(";")
