"""Keys and types of a configuration, as its JSON schema has them, and sentences for what is not so."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from form_invariance.errors import UserError


def check_schema(config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check keys and types.

    Raises:
        UserError: naming the key, what is wrong and what would be right.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # JSON schema takes 3.0 for an integer; the commands do not.
    whole = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = extend(Draft202012Validator, type_checker=whole)(schema)
    errors = list(validator.iter_errors(config))
    if not errors:
        return
    error = min(errors, key=lambda one: (one.validator != "additionalProperties", len(one.absolute_path)))
    where = ".".join(map(str, error.absolute_path))
    prefix = f"config key {where}: " if where else "config: "
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        extra = next(key for key in error.instance if key not in known)
        raise UserError(
            f"{prefix}unknown key {extra!r}; {hint(extra, known, 'known keys are ' + ', '.join(known))}"
        )
    if error.validator == "required":
        lacking = next(key for key in error.validator_value if key not in error.instance)
        raise UserError(f"{prefix}the key {lacking!r} is missing")
    found = "it is empty" if error.instance is None else f"{_shown(error.instance)} is wrong"
    raise UserError(f"{prefix}{found}; it must be {_expected(error.schema)}")


def closest(word: object, known: Collection[str]) -> str | None:
    """The known word that a misspelt one is most like, if it is like any."""
    return next(iter(difflib.get_close_matches(str(word), known, n=1)), None)


def hint(word: object, known: Collection[str], otherwise: str) -> str:
    """A question after the known word that was meant; what is said otherwise where none is like it."""
    near = closest(word, known)
    return f"did you mean {near!r}?" if near else otherwise


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _expected(schema: Mapping[str, Any]) -> str:
    """What a value must be, in words."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "const" in schema:
        return repr(schema["const"])
    if "oneOf" in schema:
        return " or ".join(map(_expected, schema["oneOf"]))
    match schema["type"]:
        case "integer":
            most = schema.get("maximum")
            return f"a whole number, at least {schema['minimum']}{f' and at most {most}' if most else ''}"
        case "number":
            if "minimum" in schema:
                return f"a number from {schema['minimum']} to {schema['maximum']}"
            return f"a number above {schema['exclusiveMinimum']} and at most {schema['maximum']}"
        case "boolean":
            return "true or false"
        case "string":
            return schema["description"] if "pattern" in schema else "a text that is not empty"
        case "array" if schema["items"]["type"] == "string" and schema.get("uniqueItems"):
            return "a list of names, each once"
        case "array" if schema.get("uniqueItems"):
            return "a list, each number once, such as [10, 20]"
        case "array":
            return "a list of texts"
        case _:
            least = schema.get("minProperties")
            return f"names with their values{f', at least {least} of them' if least else ''}"
