"""Check a configuration's names, and its keys and types by a JSON schema; report a mistake in one sentence.

jsonschema's `best_match` is not used, because it quotes regular expressions and names neither similar keys nor
alternatives. A message says what a value must be in the words of the schema's `description`.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from form_invariance.errors import UserError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
RESERVED = {
    "models": ("benchmarks", "figures", "logs", "tables", "trained"),
    "operators": ("all", "other_operators", "own", "text"),
    "formats": ("all", "shared", "transfer"),
}
"""Names that the results' folders and tables use otherwise, by the key of the configuration."""


def check_schema(config: Mapping[str, Any], schema: Mapping[str, Any], name: str = "config") -> None:
    """Check keys and types. Messages call the configuration `name`."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # JSON schema accepts 3.0 as an integer, which the commands do not, and NaN as a number of any range.
    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float) and math.isfinite(value),
        }
    )
    error = min(
        extend(Draft202012Validator, type_checker=types)(schema).iter_errors(config),
        key=lambda failure: (failure.validator != "additionalProperties", len(failure.absolute_path)),
        default=None,
    )
    if error is None:
        return
    where = ".".join(map(str, error.absolute_path))
    prefix = f"{name} key {where}: " if where else f"{name}: "
    if error.validator == "additionalProperties":
        known_keys = list(error.schema["properties"])
        extra = next(key for key in error.instance if key not in known_keys)
        raise UserError(
            f"{prefix}unknown key {extra!r}; {hint(extra, known_keys, 'known keys are ' + ', '.join(known_keys))}"
        )
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        raise UserError(f"{prefix}the key {missing!r} is missing")
    value = repr(error.instance)
    shown = value if len(value) <= 60 else f"{value[:57]}..."
    fault = "it is empty" if error.instance is None else f"{shown} is wrong"
    expected = " or ".join(map(str, error.schema.get("enum", [error.schema.get("description")])))
    raise UserError(f"{prefix}{fault}; it must be {expected}")


def check_name(name: str, section: str, where: str) -> None:
    """Check a name below the key `section` of the configuration. `where` begins the message."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{where}: the name {name!r} must consist of the letters a to z and A to Z, digits, '_', '-' and '.', "
            "and begin with a letter or digit, because it becomes a folder"
        )
    if name in RESERVED[section]:
        raise UserError(f"{where}: the name {name!r} is reserved; choose another")


def as_name(text: str, otherwise: str) -> str:
    """A text as a name that `check_name` allows: `_` replaces other characters; `otherwise` if nothing is left."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip("_.-") or otherwise


def hint(word: object, known_words: Collection[str], otherwise: str, similarity: float = 0.6) -> str:
    """A question with the known word most similar to a misspelt one; `otherwise` if no known word is similar."""
    similar = difflib.get_close_matches(str(word), known_words, n=1, cutoff=similarity)
    return f"did you mean {similar[0]!r}?" if similar else otherwise


def check_spelling(key: str, word: str, kind: str, known_words: Collection[str]) -> None:
    """Refuse a misspelling of a known word. Other unknown words are ignored, so that files can be combined."""
    if word not in known_words and (advice := hint(word, known_words, "", similarity=0.8)):
        raise UserError(f"config key {key}: {word!r} is not {kind}; {advice}")
