"""One rule for the braces of a template: a field, text, or a refusal in one sentence."""

import re

import pytest
from hostile_values import FUZZ, refusal
from hypothesis import given
from hypothesis import strategies as st

from form_invariance.problems.templates import as_template, check_fields, fields_of, fill

FIELDS = {"of": "{word}", "word": "dog", "first word": "cat", "größe": "2", "1": "one"}


def test_braces_that_are_text_stay_and_fields_are_filled_once():
    for template, prompt in (
        ('{"{word}": {"n": [{}, {0}, {1,2}]}}', '{"dog": {"n": [{}, {0}, {1,2}]}}'),
        ("char *w[] = {{word}, {of}};", "char *w[] = {dog, {word}};"),
        ("{return word;} {word;} {word, of} {x, y} {{word}", "{return word;} {word;} {word, of} {x, y} {dog"),
        ("{first word} {größe} {1} {2} {word", "cat 2 one {2} {word"),
        (r"\mathrm{{capital}}(\text{{word}}) {{{word}}} {{{x}}}", r"\mathrm{capital}(\text{dog}) {{dog}} {{x}}"),
    ):
        check_fields(template, "here", list(FIELDS))
        assert fill(template, FIELDS) == prompt


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("{word!s}", "write {word} in place of {word!s}, without formatting"),
        ("{{ wrod }}", "write {word} in place of { wrod }"),
        ("{frist word}", "write {first word} in place of {frist word}"),
        ("{c}", "{c} is no field; for this text in braces, write {{c}}"),
    ],
)
def test_braces_that_look_like_a_field_are_refused(odd, said):
    _, text = refusal(check_fields, f"{{of}} {odd}", "here", list(FIELDS))
    assert text.startswith("here: template '{of} ")
    assert said in text


PARTS = st.sampled_from(["{a}", "{b}", "{word}", "{{a}}", "{{x}}", "{}", "a", "b", " word "])
PIECES = st.one_of(st.text('{} "0:;,\n[]+', max_size=5), PARTS)


@FUZZ
@given(st.lists(PIECES, max_size=8))
def test_what_is_accepted_is_filled_as_written(pieces):
    """Only fields, and doubled braces around other words, change."""
    known = {"a": "1", "b": "22", "word": "w"}
    template = "".join(pieces)
    if refusal(check_fields, template, "here", list(known))[1]:
        return
    expected = re.sub(r"\{(\{(?!(?:a|b|word)\})[^\W\d][\w:.\[]*\})\}", r"\1", template)
    for name, text in known.items():
        expected = expected.replace(f"{{{name}}}", text)
    assert fill(template, known) == expected
    if not fields_of(as_template(template), list(known)):
        assert fill(as_template(template), known) == template
