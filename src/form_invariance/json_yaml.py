"""Strict readers of JSON and YAML: duplicate keys and numbers that are not plain or not finite are errors.

The json module and PyYAML keep the last of two equal keys silently, and accept NaN and infinity. PyYAML reads
numbers by YAML 1.1: 010 is 8, 1:30 is 90, 1_0 is 10.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from form_invariance.errors import UserError, one_line

_PLAIN = re.compile(r"[-+]?(0|[1-9][0-9]*|([0-9]+\.[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|\.(inf|nan))", re.IGNORECASE)
"""A number that every reader reads alike."""


class _Loader(yaml.SafeLoader):
    """The safe YAML loader, made strict."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Check a mapping as written, before `<<` merges keys that it may override."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = key.tag, str(key.value)
            if name in seen:
                problem = f"the key {key.value!r} appears twice"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
            seen.add(name)
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value: int = super().construct_yaml_int(node)
        self._check_plain(node, value)
        return value

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        value = super().construct_yaml_float(node)
        self._check_plain(node, value)
        if not math.isfinite(value):
            problem = f"{node.value} is not a finite number"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value

    def _check_plain(self, node: yaml.ScalarNode, value: float) -> None:
        if not _PLAIN.fullmatch(node.value):
            problem = f"YAML reads {node.value} as the number {value}; write {value}, or put text in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {key!r} appears twice")
        mapping[key] = value
    return mapping


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_duplicates, parse_float=_finite, parse_constant=_finite)


def _yaml(text: str) -> Any:
    try:
        return _json(text)  # JSON may be indented with tabs, which YAML forbids
    except json.JSONDecodeError:
        return yaml.load(text, Loader=_Loader)


def _read(path: Path, kind: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # PyYAML raises errors of many kinds
        raise UserError(f"{path} is not valid {kind}: {one_line(error)}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must contain keys and values")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UserError: the file is missing, is not a JSON object, or contains a duplicate key or a number that is not
            finite.
    """
    return _read(path, "JSON", _json)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises UserError as `read_json` does."""
    return _read(path, "YAML", _yaml)


def yaml_value(text: str, where: str) -> Any:
    """The value that a text has in a YAML file; None for an empty text.

    Raises:
        UserError: the text is not YAML, or has a duplicate key or a number that is not plain; `where` opens the
            message.
    """
    try:
        return _yaml(text)
    except Exception as error:
        problem = getattr(error, "problem", None) or one_line(error)  # str adds the line number
        raise UserError(f"{where}: {text!r} is not valid YAML: {problem}") from None
