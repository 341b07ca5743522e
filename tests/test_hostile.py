"""Hostile input: whatever stands in a configuration, the answer is one sentence or a run that harms nothing."""

import copy
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from form_invariance import config_check
from form_invariance.errors import UserError
from form_invariance.operands import evaluate
from form_invariance.prompts import check_fields, render
from stub_checkout import ROOT

SCHEMA = yaml.safe_load((ROOT / "config/schemas/config.schema.yaml").read_text())
SMALL = {
    **yaml.safe_load((ROOT / "config/config.yaml").read_text()),
    "models": {"m": {"source": "embedded:embedded-shared"}},
    "operands": {"operand_min": 6, "operand_max": 12, "answer_min": 3, "answer_max": 40},
    "operators": {"addition": "a + b"},
}
NASTY = st.sampled_from(
    [
        *("../../etc", "a/b", "$(touch x)", "`id`", "; rm -rf /", "a b", "é", "١٢", "\u202eabc"),
        *("{wildcard}", "-rf", "~", "."),
    ]
)
TEXTS = st.one_of(st.text(max_size=20), NASTY)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
FUZZ = settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck), derandomize=True)


def places(config, above=()):
    """The path of every key of a configuration."""
    for key, value in config.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from places(value, (*above, key))


PLACES = st.sampled_from(sorted(places(SMALL)))


def put(config, path, key, value):
    config = copy.deepcopy(config)
    section = config
    for name in path[:-1]:
        section = section[name]
    if key is None:
        section[path[-1]] = value
    else:
        section[key] = section.pop(path[-1])
    return config


def refusal(call, *arguments):
    """What a call returns, and the one line in which it refuses, if it does."""
    try:
        return call(*arguments), ""
    except UserError as error:
        text = str(error)
    assert text
    assert "\n" not in text
    return None, text


def accepted(config):
    """Whether a configuration passes; if not, the refusal must be one line."""
    return not refusal(config_check.check, config, SCHEMA)[1]


@FUZZ
@given(PLACES, VALUES)
def test_any_value_anywhere(path, value):
    accepted(put(SMALL, path, None, value))


@FUZZ
@given(st.sampled_from([("models", "m"), ("formats", "code"), ("operators", "addition")]), TEXTS)
def test_any_name(path, name):
    """A name is part of paths and of wildcards: what passes stays in its folder and means itself."""
    if accepted(put(SMALL, path, name, None)):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*", name), name
        assert (Path("/results") / name / "x").resolve() == Path(f"/results/{name}/x")


@FUZZ
@given(TEXTS)
def test_any_template(text):
    for template in (text, "{a}" + text + "{b}=", text + "{a}{b}", "{b}" + text + "{a} "):
        if not refusal(check_fields, template, "here")[1]:
            shown = render(template, 12, 7)
            assert shown == template.replace("{a}", "12").replace("{b}", "7")


@FUZZ
@given(st.one_of(TEXTS, st.text(alphabet="ab+-*/%()0123456789 minmaxabs,_.", max_size=30)))
@example("(" * 5000 + "a" + ")" * 5000)
@example("-" * 20000 + "a")
@example("a" + "*a" * 3000)
@example("__import__('os').system('touch x')")
@example("().__class__")
@example("a if b else 0")
@example("9" * 5000)
@example("9" * 19 + " + a")
def test_any_expression(text):
    found, text = refusal(evaluate, text, np.array([7, 12]), np.array([3, 0]))
    if not text:
        answer, defined = found
        assert answer.shape == defined.shape == (2,)
        assert answer.dtype == np.int64


@pytest.mark.parametrize(
    ("expression", "answers"),
    [("min(a, b, 5)", [3, 0]), ("max(a, b, 9, a)", [9, 12]), ("abs(b - a)", [4, 12]), ("min(a)", [7, 12])],
)
def test_functions_leave_the_operands_as_they_are(expression, answers):
    a, b = np.array([7, 12]), np.array([3, 0])
    assert evaluate(expression, a, b)[0].tolist() == answers
    assert (a.tolist(), b.tolist()) == ([7, 12], [3, 0])
    assert "cannot be read" in refusal(evaluate, "abs(a, b)", a, b)[1]


def test_numbers_that_are_too_large_are_not_defined():
    a, b = np.array([999, 2]), np.array([3, 1])
    answer, defined = evaluate("*".join("a" * 9), a, b)
    assert defined.tolist() == [False, True]
    assert answer[1] == 2**9


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch pwned']",
        "seed: !!python/name:os.system",
        "a: [1",
        "\x00",
        "- a list",
        "just text",
        "{{x}}: 1",
        "seed: 1\nseed: 2",
        "\ud83d".encode("utf-16", "surrogatepass").decode("latin-1"),
    ],
)
def test_any_file(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my.yaml"
    path.write_text(text, encoding="utf-8")
    found, text = refusal(config_check.load, path)
    assert "my.yaml" in text or found is not None
    if found is not None:
        accepted({**SMALL, **found})
    assert not (tmp_path / "pwned").exists()
