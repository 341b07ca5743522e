"""Strict readers of JSON and YAML: what is broken, ambiguous or endless is refused, with the file's name."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from form_invariance.errors import UserError

_MOST, _DEEPEST = 100_000, 50


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which takes no key twice."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """A mapping as it stands in the file, before `<<` brings keys along that may be overridden."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = key.tag, str(key.value)
            if name in seen:
                raise yaml.composer.ComposerError(None, None, f"the key {key.value!r} comes twice", key.start_mark)
            seen.add(name)
        return node


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} comes twice")
    return found


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once)


def _yaml(text: str) -> Any:
    """JSON is YAML too, but for its tabs."""
    try:
        return _json(text)
    except json.JSONDecodeError:
        return yaml.load(text, Loader=_Loader)


def extent_error(content: object) -> str | None:
    """What is wrong with the extent of parsed content; None if nothing is.

    An alias of YAML stands for all that it names, so few lines may mean billions of values, or endlessly many.
    """
    values = 0
    waiting: list[tuple[object, tuple[object, ...]]] = [(content, ())]
    while waiting:
        value, place = waiting.pop()
        values += 1
        if values > _MOST or len(place) > _DEEPEST:
            return f"it holds more than {_MOST:,} values, or is nested more than {_DEEPEST} deep"
        if isinstance(value, float) and not math.isfinite(value):
            key = " ".join(".".join(map(str, place)).split())
            return f"{key} is {value}, which is not a finite number"
        inner = (
            value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        )
        waiting += [(one, (*place, name)) for name, one in inner]
    return None


def _read(path: Path, kind: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The keys and values of a file.

    Raises:
        FileNotFoundError: it is missing.
        UserError: it cannot be read.
    """
    try:
        content = parse(path.read_text(encoding="utf-8"))
        problem = extent_error(content)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        problem = "it is nested too deeply"
    except Exception as error:  # PyYAML lets errors of many kinds through.
        problem = " ".join(str(error).split())
    if problem:
        raise UserError(f"{path} is not valid {kind}: {problem}")
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold keys and values")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        FileNotFoundError: it is missing.
        UserError: it is no JSON object, has a key twice or a number that is not finite.
    """
    return _read(path, "JSON", _json)


def read_yaml(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file.

    Raises:
        FileNotFoundError: it is missing.
        UserError: it holds no keys and values, has a key twice, a number that is not finite, or no end.
    """
    return _read(path, "YAML", _yaml)
