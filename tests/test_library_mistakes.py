"""The library refuses a wrong value in one sentence, and takes the same value in another form for what it is."""

import re
from collections import deque
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hostile_values import FUZZ, SCALARS, refusal
from hypothesis import given
from hypothesis import strategies as st

from form_invariance import library
from form_invariance.model.files import PACKAGED

SOURCE = "embedded:embedded-shared"
TEMPLATE = "{a}+{b}="
ROWS = pd.DataFrame({"a": [12, 30, 225], "b": [7, 41, 68], "answer": [19, 71, 293]})
MODEL = library.load_model(SOURCE, device="cpu")
PROMPTS = library.make_prompts(MODEL, TEMPLATE, ROWS)
TURNED = PROMPTS.iloc[[1, 2, 0]]
NEURONS = pd.DataFrame({"layer": [3, 4, 5], "neuron": [0, 7, 1031]})
MEANS = library.mean_activations(MODEL, PROMPTS)
TOKENS = MODEL.model.config.vocabulary
BOS = MODEL.tokenizer.text(MODEL.tokenizer.bos)

RIGHT = {
    "load_model": {"source": SOURCE, "first_layer": 4, "dtype": "float32", "device": "cpu", "revision": None},
    "make_prompts": {"model": MODEL, "template": TEMPLATE, "rows": ROWS, "answer": "answer"},
    "answer": {"model": MODEL, "prompts": PROMPTS},
    "attribution": {"model": MODEL, "clean": PROMPTS, "corrupt": TURNED},
    "exact_effects": {
        **{"model": MODEL, "clean": PROMPTS, "corrupt": TURNED, "neurons": NEURONS},
        "metric": "indirect_effect",
    },
    "mean_activations": {"model": MODEL, "prompts": PROMPTS},
    "keep_only": {"model": MODEL, "prompts": PROMPTS, "neurons": NEURONS, "means": MEANS},
    "knock_out": {"model": MODEL, "prompts": PROMPTS, "neurons": NEURONS, "means": MEANS},
    "transfer": {"model": MODEL, "prompts": PROMPTS, "donors": TURNED, "neurons": NEURONS},
}
"""Right values for every argument of every function."""


def cell(table, column, value, row=1):
    """A table with another value in one cell."""
    values = table[column].tolist()
    values[row] = value
    return table.assign(**{column: pd.Series(values, index=table.index, dtype=object)})


def cells(table, column, values):
    return [cell(table, column, value) for value in values]


NO_TABLE = [None, 0, "prompts", [], {"prompt": ["1+1="]}, PROMPTS["prompt"], pd.DataFrame()]
NO_SINGLE = [True, np.nan, b"x", [], object()]
NO_TEXT = [None, pd.NA, "", b"12+7=", Decimal("NaN"), pd.Timedelta(1)]
NO_PLAIN_TEXT = [np.inf, 1e300, "\ud800"]
SEVERAL = [["12+7="], np.array([1])]
"""Cells that are accepted answers, and nothing else."""
NO_LIST = [{"19", "7"}, range(3), pd.Series([19]), [], [71, None], ["71", [72]]]
LISTS_AS_TEXT = [
    *("['Kyiv', 'Kiev']", " [19, 71] ", "('Kyiv',)", "{'a', 'b'}", "{19, 71}"),
    *(
        form(kind([19, 71]))
        for kind in (frozenset, np.array, pd.array, pd.Index, torch.tensor, deque)
        for form in (str, repr)
    ),
    *(str(kind(["19", "71"])) for kind in (frozenset, np.array, pd.array)),
    repr(np.array(["19", "71"], dtype=object)),
]
NO_TOKENS = ["x", "[73, x]", "[]", [], {73, 1}, 73, [73.5], [[73]], [73, None], "[73, 75", [1, 2]]
"""Accepted tokens: no list of whole numbers, or one without the answer_token, which is 73 in this row."""
NO_WHOLE = [
    *(None, np.inf, 2.5, "", "2.5", "٣", True, b"1", [1], Decimal("1.5"), torch.tensor(1.5)),
    *(-1, 10**30, np.uint64(2**64 - 1), "9" * 5000),
]
NO_PROMPTS = [
    *(*NO_TABLE, PROMPTS[:0], PROMPTS.drop(columns="prompt"), pd.concat([PROMPTS, PROMPTS], axis=1)),
    *cells(PROMPTS, "prompt", [*NO_TEXT, *SEVERAL, 12, BOS + "12+7="]),
]
NO_ANSWERED_PROMPTS = [
    *(*NO_PROMPTS, PROMPTS.drop(columns="answer_token"), PROMPTS.assign(answer_token=["19", "x", "7"])),
    *cells(PROMPTS, "answer_token", [*NO_WHOLE, TOKENS]),
    PROMPTS.assign(answer_token=PROMPTS["answer_token"] / 3),
]
NO_ACCEPTED = cells(PROMPTS.assign(accepted_tokens=[[21], [73], [295]]), "accepted_tokens", NO_TOKENS)
OTHER_NUMBER = [PROMPTS[:2]]
NO_NEURONS = [
    *(*NO_TABLE[1:], NEURONS.drop(columns="layer"), NEURONS[["layer"]], pd.concat([NEURONS, NEURONS], axis=1)),
    *cells(NEURONS, "layer", [*NO_WHOLE, 2, 6]),
    *cells(NEURONS, "neuron", [*NO_WHOLE, 1032]),
]
NO_MEANS = [
    *(*NO_TABLE, MEANS.neurons, replace(MEANS, neurons=MEANS.neurons[:5])),
    *(
        replace(MEANS, neurons=[change(one) for one in MEANS.neurons])
        for change in (lambda one: one[:, :9], lambda one: one[:0], lambda one: one[0], lambda one: one * np.nan)
    ),
]
BAD_SOURCES = [*NO_SINGLE, None, "nowhere", "embedded:x", "x" * 300, "a\0b", "", Path("no/thing"), Path(__file__)]
BAD_LAYERS = [*NO_SINGLE, -1, 6, 2.5, "half_depth", 10**30]
BAD_TYPES = [*NO_SINGLE, None, "float16", " tf32", torch.float16, np.float32]
BAD_DEVICES = [None, 0, "gpu", "", "meta", torch.device("meta"), "cuda:99", "cpu,cpu"]
BAD_TEMPLATES = [
    *(None, "", "12+7=", "{a}+{wrod}=", "{a!r}+{b}=", "{a:>5}+{b}=", "{a}+{prompt}=", "{a}+{c}="),
    *("{0}+{1}=", f"{BOS}{{a}}+{{b}}=", Path("{a}+{b}=")),
]
BAD_FIELDS = [
    *(ROWS[:0], ROWS[["a", "b"]], ROWS[["a", "answer"]], pd.concat([ROWS, ROWS], axis=1)),
    *cells(ROWS, "a", [*NO_TEXT, *SEVERAL, *NO_PLAIN_TEXT]),
    *(*cells(ROWS, "answer", NO_PLAIN_TEXT), ROWS.assign(a=pd.array([12, pd.NA, 225], dtype="Int64"))),
]
BAD_ANSWERS = cells(ROWS, "answer", [*NO_TEXT, *NO_LIST])
TEXTS_OF_LISTS = cells(ROWS, "answer", LISTS_AS_TEXT)
SECOND_OF_THREE = [ROWS.assign(b=[7, None, 6])[1:]]
BAD_COLUMNS = [*NO_SINGLE, None, "sum", 0, ("answer",)]
OWN_ANSWER = [PROMPTS, TURNED.assign(answer_token=21)]
BAD_TABLES = [None, "sums.csv", {}, PROMPTS, [PROMPTS]]
BAD_KEYS = [{"code/x": "y"}, {("code", 3): "y"}, {("code",): "y"}]
BAD_WORDINGS = [{("x", "addition"): one} for one in (None, [], [None])]
BAD_METRICS = [*NO_SINGLE, None, "KL"]
EFFECTS, ABLATED = ("attribution", "exact_effects"), ("keep_only", "knock_out", "transfer")
OF_A_MODEL = (*(name for name in RIGHT if name != "load_model"), "scout")

WRONG = [  # functions, argument, what the message has, wrong values
    (["load_model"], "source", "source|folder|model", BAD_SOURCES),
    (["load_model"], "first_layer", "first_layer", BAD_LAYERS),
    (["load_model"], "dtype", "dtype: .* must be one of float32, tf32, bfloat16", BAD_TYPES),
    (["load_model"], "device", "device", [*NO_SINGLE, *BAD_DEVICES]),
    (["load_model"], "revision", "revision", [*NO_SINGLE, 7, "main"]),
    (["make_prompts"], "template", "template", [*NO_SINGLE, *BAD_TEMPLATES]),
    (["make_prompts"], "template", r"must have .*{a}, {b}, .*it has \['a', 'c'\]", ["{a}+{c}="]),
    (["make_prompts"], "rows", "^rows|template|cannot encode", [*NO_TABLE, *BAD_FIELDS]),
    (["make_prompts"], "rows", "^rows: row 1 has .* in column 'answer'", BAD_ANSWERS),
    (["make_prompts"], "rows", r"^rows: row 1 has the text .*, which may be a list .*\[text\]$", TEXTS_OF_LISTS),
    (["make_prompts"], "rows", r"^rows: row 0 \(index 1\) has nothing in column 'b'; give", SECOND_OF_THREE),
    (["make_prompts"], "answer", "^rows: ", BAD_COLUMNS),
    (["exact_effects"], "metric", "^metric: .*one of indirect_effect, logit_difference, kl", BAD_METRICS),
    (OF_A_MODEL, "model", "^model: give what load_model returns", [*NO_TABLE, MODEL.model, SOURCE]),
    (["mean_activations"], "prompts", "^prompts: ", NO_PROMPTS),
    (["mean_activations"], "prompts", "cannot encode", cells(PROMPTS, "prompt", ["\ud800"])),
    (["answer", *ABLATED], "prompts", "^prompts: ", NO_ANSWERED_PROMPTS),
    (["answer", *ABLATED], "prompts", "^prompts: row 1 has .*accepted_tokens", NO_ACCEPTED),
    (EFFECTS, "clean", "^clean: |^corrupt: . prompts for", [*NO_ANSWERED_PROMPTS, *OTHER_NUMBER]),
    (EFFECTS, "clean", "^clean: row 1 has .*accepted_tokens", NO_ACCEPTED),
    (EFFECTS, "corrupt", "^corrupt: ", [*NO_ANSWERED_PROMPTS, *OTHER_NUMBER]),
    (EFFECTS, "corrupt", "^corrupt: row .*has the answer of its clean prompt", OWN_ANSWER),
    (["transfer"], "donors", "^donors: ", [*NO_PROMPTS, *OTHER_NUMBER]),
    (["exact_effects", *ABLATED], "neurons", "^neurons: ", [*NO_NEURONS, [], "3"]),
    (["exact_effects"], "neurons", "^neurons: there is none", [NEURONS[:0]]),
    (ABLATED, "neurons", "^neurons: ", [None]),
    (["keep_only", "knock_out"], "means", "^means: ", NO_MEANS),
    (["scout"], "tables", "^tables: give a list of CSV files, not ", BAD_TABLES),
    (["scout"], "tables", "no/such.csv", [["no/such.csv"]]),
    (["scout"], "templates", r"^templates: give wordings by \(format", [True, "x", [], [("code", "x")], PROMPTS]),
    (["scout"], "templates", "^templates: the key ", BAD_KEYS),
    (["scout"], "templates", "^templates: .* must be a wording", BAD_WORDINGS),
    (["scout"], "templates", "'sum' is not among the operators", [{("code", "sum"): "{a}+{b}="}]),
    (["scout"], "seed", "^seed: ", [*NO_SINGLE, None, -1, "x", 1.5]),
    (["scout"], "examples", "^examples: ", [*NO_SINGLE, None, -1, 17, 1.5, "some", ""]),
]
FORMS = [
    lambda table: table.astype(str),
    lambda table: table.astype(dict.fromkeys(table.select_dtypes("number"), float)),
    lambda table: table.astype(object),
    lambda table: table.astype("category"),
    lambda table: table.convert_dtypes(),
    lambda table: table.set_axis(pd.MultiIndex.from_product([["x"], range(len(table))])),
    lambda table: pd.concat(
        [pd.DataFrame(pd.NA, table.index, ["x", "y"]).set_axis(["x"] * 2, axis=1), table], axis=1
    ),
    lambda table: pd.read_csv(StringIO(table.to_csv(index=False))),
]
"""Tables that say the same."""
SAME = {
    ("load_model", "source"): [PACKAGED / "embedded-shared", np.str_(SOURCE)],
    ("load_model", "first_layer"): [4.0, np.int64(4), "4", np.array(4), torch.tensor(4)],
    ("load_model", "dtype"): [torch.float32, np.dtype("float32"), "tf32"],
    ("load_model", "device"): [torch.device("cpu"), "cpu:0"],
    ("make_prompts", "template"): [np.str_(TEMPLATE)],
    ("make_prompts", "answer"): [np.str_("answer")],
    ("make_prompts", "rows"): [
        *(form(ROWS) for form in FORMS),
        ROWS.assign(
            a=[12, "30", 225.0], b=[np.int8(7), Decimal(41), np.float64(68)], prompt=None, answer_token="x"
        ),
    ],
    ("exact_effects", "metric"): [np.str_("indirect_effect")],
    **{
        (function, argument): [form(arguments[argument]) for form in FORMS]
        for function, arguments in RIGHT.items()
        for argument in ("prompts", "clean", "corrupt", "donors", "neurons")
        if argument in arguments
    },
}


def call(function, arguments):
    return refusal(lambda: getattr(library, function)(**arguments))


@pytest.fixture(scope="module")
def right():
    """What every function gives for right arguments."""
    return {function: getattr(library, function)(**arguments) for function, arguments in RIGHT.items()}


def assert_same(function, found, expected):
    if function == "load_model":
        assert found.late == expected.late
        assert found.model.dtype == expected.model.dtype
        assert torch.equal(found.model.layers[5].down, expected.model.layers[5].down)
    elif function == "mean_activations":
        torch.testing.assert_close(found.neurons, expected.neurons)
    else:
        given = ROWS if function == "make_prompts" else PROMPTS
        made = [name for name in expected if name not in given]
        pd.testing.assert_frame_equal(
            found[made].reset_index(drop=True), expected[made].reset_index(drop=True), check_dtype=False
        )


def test_every_argument_is_tried():
    arguments = {(function, name) for function, given in RIGHT.items() for name in given}
    tried = {(function, argument) for functions, argument, *_ in WRONG for function in functions}
    assert {one for one in tried if one[0] != "scout"} == arguments
    assert {name for function, name in tried if function == "scout"} == set(signature(library.scout).parameters)
    # A revision belongs to a hub's name, and no hub is asked here.
    assert set(SAME) == {one for one in arguments if one[1] not in ("model", "means", "revision")}


@pytest.mark.parametrize(
    ("function", "argument", "named", "values"),
    [(function, *entry) for functions, *entry in WRONG for function in functions],
)
def test_a_wrong_value_is_refused(function, argument, named, values, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for place, value in enumerate(values):
        found, said = call(function, {**RIGHT.get(function, {"model": MODEL}), argument: value})
        assert re.search(named, said), (place, value, found, said)
        assert len(said) < 1000


@pytest.mark.parametrize(("function", "argument"), SAME)
def test_a_right_value_in_another_form_is_the_same(function, argument, right):
    for place, value in enumerate(SAME[function, argument]):
        found, said = call(function, {**RIGHT[function], argument: value})
        assert not said, (place, value, said)
        assert_same(function, found, right[function])


@FUZZ
@given(st.sampled_from(["a", "b", "answer"]), st.lists(SCALARS, min_size=3, max_size=3))
def test_any_cell_of_a_row_is_text_or_refused(column, values):
    """Oracle: Python's own text of each value, with the .0 of whole floats away."""
    rows = ROWS.assign(**{column: pd.Series(values, dtype=object)})
    made, said = refusal(library.make_prompts, MODEL, TEMPLATE, rows)
    if not said:
        floats = [value for value in values if isinstance(value, float)]
        whole = all(value == int(value) for value in floats)
        texts = [f"{value:.0f}" if whole and isinstance(value, float) else str(value) for value in values]
        texts = ["0" if text == "-0" else text for text in texts]
        rows = ROWS.astype(str).assign(**{column: texts})
        assert made["prompt"].tolist() == [f"{row.a}+{row.b}=" for row in rows.itertuples()]
        assert "" not in texts


@FUZZ
@given(
    st.sampled_from(
        [("prompts", "prompt"), ("prompts", "answer_token"), ("neurons", "layer"), ("neurons", "neuron")]
    ),
    st.sampled_from([0, 1, 2]),
    SCALARS,
)
def test_any_cell_of_prompts_and_neurons(place, row, value):
    argument, column = place
    table = cell(RIGHT["transfer"][argument], column, value, row)
    _, said = refusal(lambda: library.transfer(**{**RIGHT["transfer"], argument: table}))
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if column == "prompt":
        assert bool(said) != (isinstance(value, str) and MODEL.tokenizer.encode(value) != [])
    elif whole:
        allowed = {"layer": range(3, 6), "neuron": range(1032), "answer_token": range(TOKENS)}[column]
        assert bool(said) != (value in allowed)
    elif not (isinstance(value, str) and value.isascii() and value.isdigit()):
        assert said


def test_columns_that_no_field_names_may_have_gaps():
    rows = ROWS.assign(note=[np.nan, None, pd.NA], worth=[0.1, np.nan, np.inf])
    assert library.make_prompts(MODEL, TEMPLATE, rows)["prompt"].tolist() == PROMPTS["prompt"].tolist()


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (np.array([12, 2], dtype=np.float32), ["12", "2"]),
        ([-12.0, -0.0], ["-12", "0"]),
        (np.array([0.1, 0.5], dtype=np.float32), ["0.1", "0.5"]),
        ([True, False], ["True", "False"]),
        (pd.to_datetime(["2020-01-31", "1999-12-01"]), ["2020-01-31", "1999-12-01"]),
        ([Decimal("12"), Fraction(7)], ["12", "7"]),
        ([Decimal("12.0"), Decimal("30")], ["12", "30"]),
    ],
)
def test_the_text_of_numbers(values, texts):
    rows = pd.DataFrame({0: values, "answer": [19, 71]})
    made = library.make_prompts(MODEL, "{0}+1=", rows)
    assert made["prompt"].tolist() == [f"{text}+1=" for text in texts]
