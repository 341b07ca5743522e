"""Templates: which braces are fields, and how they are filled. The rule is the same everywhere (config/README.md).

A field is ``{name}`` with a known name. All other braces are text, except those that look like a field: they are
refused, because a misspelt field must not stay in the prompt. If text is meant, the braces are doubled:
``{{text}}``.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from form_invariance.errors import UserError

OPERANDS = ("a", "b")
"""The fields of arithmetic."""
_BRACES = re.compile(r"(\{?)\{([^{}]*)\}(\}?)")
"""A text in braces, and further braces around it."""
_LIKE_A_FIELD = re.compile(r"[^\W\d]\w*([!:.\[][^\s;()]*)?")
"""A word, perhaps with what Python's format strings allow after it."""
_SIMILAR = 0.75


def fields_of(template: str, field_names: Sequence[str] = OPERANDS) -> list[str]:
    """The texts in braces that are a known field, or look like a field, with repetitions.

    >>> fields_of('{"sum": {a}, "of": {}} {wrod} {a:>5} {{text}} {{b}} {{b:}}')
    ['a', 'wrod', 'a:>5', 'b']
    """
    fields = []
    for opening, text, closing in _BRACES.findall(template):
        like = bool(_LIKE_A_FIELD.fullmatch(text))
        as_text = like and opening and closing
        if text in field_names or (not as_text and (like or _meant(text, field_names))):
            fields.append(text)
    return fields


def _meant(text: str, field_names: Sequence[str]) -> str | None:
    """The known field that a text in braces means: with formatting, or misspelt."""
    name = re.sub(r"[^\w\s-].*", "", text, flags=re.DOTALL)
    if name != text and not _LIKE_A_FIELD.fullmatch(text):
        return None
    lower = {field.casefold(): field for field in field_names}
    similar = difflib.get_close_matches(name.strip().casefold(), lower, n=1, cutoff=_SIMILAR)
    return lower[similar[0]] if similar else None


def check_fields(template: str, where: str, field_names: Sequence[str] | None = None) -> None:
    """Check the fields of a template.

    Args:
        where: the template's key in the configuration, for the message.
        field_names: a table's fields, of which the template must have at least one. None: the operands ``{a}`` and
            ``{b}``, once each.
    """
    fields = fields_of(template, field_names or OPERANDS)
    if field_names is None:
        right, rule = sorted(fields) == ["a", "b"], "the fields {a} and {b}, once each, and no other"
    else:
        right = bool(fields) and set(fields) <= set(field_names)
        listed = ", ".join(f"{{{name}}}" for name in field_names)
        rule = f"at least one of the table's fields, {listed}, and no other"
    if not right:
        _refuse(template, where, rule, field_names or OPERANDS)


def operands_in(expression: str) -> list[str]:
    """The operands that an expression contains, a before b."""
    return sorted(set(re.findall(r"\b[ab]\b", expression)))


def check_task_fields(template: str, where: str, expression: str) -> None:
    """Check that a template has ``{a}``, has ``{b}`` if the expression contains b, and no other field."""
    needed = {"a", *operands_in(expression)}
    if not needed <= set(fields_of(template)) <= {"a", "b"}:
        rule = f"the field {{a}}, the field {{b}} if the expression {expression!r} contains b, and no other field"
        _refuse(template, where, rule, OPERANDS)


def _refuse(template: str, where: str, rule: str, field_names: Sequence[str]) -> NoReturn:
    fields = fields_of(template, field_names)
    odd = next((text for text in fields if text not in field_names), None)
    advice = ""
    if odd is not None:
        meant = _meant(odd, field_names)
        advice = (
            f"; write {{{meant}}} in place of {{{odd}}}, without formatting or spaces"
            if meant
            else f"; {{{odd}}} is no field; for this text in braces, write {{{{{odd}}}}}"
        )
    raise UserError(f"{where}: template {template!r} must have {rule}; it has {fields or 'none'}{advice}")


def fill(template: str, fields: Mapping[str, str]) -> str:
    """Put the text of every field into a template, and undo doubled braces. All other braces stay as they are.

    >>> fill('{"sum": {a}, "of": {{a}}} {{text}}', {"a": "12"})
    '{"sum": 12, "of": {12}} {text}'
    """

    def filled(match: re.Match[str]) -> str:
        opening, text, closing = match.groups()
        if text in fields:
            return f"{opening}{fields[text]}{closing}"
        return f"{{{text}}}" if opening and closing and _LIKE_A_FIELD.fullmatch(text) else match[0]

    return _BRACES.sub(filled, template)


def as_template(text: str) -> str:
    """The template without fields that `fill` turns into a text.

    >>> as_template('{"of": {France}}')
    '{"of": {{France}}}'
    """

    def doubled(match: re.Match[str]) -> str:
        return f"{{{match[0]}}}" if _LIKE_A_FIELD.fullmatch(match[1]) else match[0]

    return re.sub(r"\{([^{}]*)\}", doubled, text)


def render(template: str, a: int, b: int) -> str:
    """Put two operands into a template."""
    return fill(template, {"a": str(a), "b": str(b)})
