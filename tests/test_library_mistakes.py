"""The library refuses a wrong value in one sentence, and takes the same value in another form for what it is."""

import re
from dataclasses import replace
from decimal import Decimal
from io import StringIO

import numpy as np
import pandas as pd
import pytest
import torch
from hostile_values import FUZZ, SCALARS, refusal
from hypothesis import given
from hypothesis import strategies as st

from form_invariance import library

SOURCE = "embedded:embedded-shared"
TEMPLATE = "{a}+{b}="
ROWS = pd.DataFrame({"a": [12, 30, 225], "b": [7, 41, 68], "answer": [19, 71, 293]})
MODEL = library.load_model(SOURCE, device="cpu")
PROMPTS = library.make_prompts(MODEL, TEMPLATE, ROWS)
TURNED = PROMPTS.iloc[[1, 2, 0]]
NEURONS = pd.DataFrame({"layer": [3, 4, 5], "neuron": [0, 7, 1031]})
MEANS = library.mean_activations(MODEL, PROMPTS)
OF_DIGITS = library.make_prompts(library.load_model("embedded:embedded-digits", device="cpu"), TEMPLATE, ROWS)
"""Prompts of another tokenizer."""
TOKENS = MODEL.model.config.vocabulary
BOS = MODEL.tokenizer.text(MODEL.tokenizer.bos)

PATCHED = {"model": MODEL, "clean": PROMPTS, "corrupt": TURNED}
ABLATED = {"model": MODEL, "prompts": PROMPTS, "neurons": NEURONS, "means": MEANS}
RIGHT = {
    "load_model": {"source": SOURCE, "first_layer": 4, "dtype": "float32", "device": "cpu", "revision": None},
    "make_prompts": {"model": MODEL, "template": TEMPLATE, "rows": ROWS, "answer": "answer"},
    "answer": {"model": MODEL, "prompts": PROMPTS},
    "attribution": PATCHED,
    "exact_effects": {**PATCHED, "neurons": NEURONS, "metric": "indirect_effect"},
    "mean_activations": {"model": MODEL, "prompts": PROMPTS},
    "keep_only": ABLATED,
    "knock_out": ABLATED,
    "transfer": {"model": MODEL, "prompts": PROMPTS, "donors": TURNED, "neurons": NEURONS},
}


def cells(table, column, values):
    """Tables with another value in the second row of a column."""
    first, _, *rest = table[column]
    columns = [pd.Series([first, value, *rest], index=table.index, dtype=object) for value in values]
    return [table.assign(**{column: some}) for some in columns]


NO_TABLE = [None, "prompts", [], PROMPTS["prompt"], pd.DataFrame()]
NO_SINGLE = [True, np.nan, [], object()]
NO_TEXT = [None, "", b"12+7=", Decimal("NaN")]
NO_WHOLE = [None, np.inf, 2.5, "", True, [1], Decimal("1.5"), -1, 10**30]
NO_TOKENS = ["x", "[73, x]", [], 73, [73.5], [73, None], [1, 2]]
"""Accepted tokens: no list of whole numbers, or one without the answer_token, which is 73 in this row."""
NO_PROMPTS = [
    *(*NO_TABLE, PROMPTS[:0], PROMPTS.drop(columns="prompt"), pd.concat([PROMPTS, PROMPTS], axis=1)),
    *(OF_DIGITS, pd.concat([PROMPTS[:1], OF_DIGITS[1:]])),
    *cells(PROMPTS, "prompt", [*NO_TEXT, ["12+7="], 12, BOS + "12+7="]),
]
NO_ANSWERED_PROMPTS = [
    *(*NO_PROMPTS, PROMPTS.drop(columns="answer_token"), *cells(PROMPTS, "answer_token", [*NO_WHOLE, TOKENS])),
    PROMPTS.assign(answer_token=PROMPTS["answer_token"] / 3),
]
NO_ACCEPTED = cells(PROMPTS.assign(accepted_tokens=[[21], [73], [295]]), "accepted_tokens", NO_TOKENS)
BAD_WORDINGS = [[], ["{a}+{b}="], "{a}+{b}=", *({key: "{a}+{b}="} for key in ("", 3, ("code",), ("code", 3)))]
BAD_WORDINGS += [{"code": value} for value in (None, 3, [], [3], "{a}", ["{c}"])]
OTHER_NUMBER = [PROMPTS[:2]]
NO_NEURONS = [
    *(*NO_TABLE[1:], NEURONS.drop(columns="layer"), pd.concat([NEURONS, NEURONS], axis=1)),
    *(*cells(NEURONS, "layer", [*NO_WHOLE, 2, 6]), *cells(NEURONS, "neuron", [*NO_WHOLE, 1032])),
]
NO_MEANS = [
    *(*NO_TABLE, MEANS.neurons, replace(MEANS, neurons=MEANS.neurons[:5])),
    replace(MEANS, neurons=[one[:, :9] for one in MEANS.neurons]),
    replace(MEANS, neurons=[one * np.nan for one in MEANS.neurons]),
    library.mean_activations(MODEL, library.make_prompts(MODEL, "{a} + {b} = ", ROWS)),
]
BAD_TEMPLATES = [None, "", "12+7=", "{a!r}+{b}=", "{a}+{c}=", f"{BOS}{{a}}+{{b}}="]
BAD_FIELDS = [
    *(ROWS[:0], ROWS[["a", "b"]], pd.concat([ROWS, ROWS], axis=1), *cells(ROWS, "a", [*NO_TEXT, ["12"], np.inf])),
    *cells(ROWS, "a", [2.0**53, -1e300, np.float32(2**24)]),
    ROWS.assign(a=pd.array([12, pd.NA, 225], dtype="Int64")),
]
EFFECTS, CHANGES = ("attribution", "exact_effects"), ("keep_only", "knock_out", "transfer")
OF_A_MODEL = [name for name in RIGHT if name != "load_model"]

WRONG = [  # functions, argument, what the message has, wrong values
    (["load_model"], "source", "source|folder|model", [*NO_SINGLE, None, "nowhere", "embedded:x", "a\0b", ""]),
    (["load_model"], "first_layer", "first_layer", [*NO_SINGLE, -1, 6, 2.5, "half_depth"]),
    (["load_model"], "dtype", "dtype: .* must be one of float32, tf32, bfloat16", [None, "float16", np.float32]),
    (["load_model"], "device", "device", [*NO_SINGLE, None, 0, "gpu", "meta", "cuda:99"]),
    (["load_model"], "revision", "revision", [*NO_SINGLE, 7, "main"]),
    (["make_prompts"], "template", "template", [*NO_SINGLE, *BAD_TEMPLATES]),
    (["make_prompts"], "rows", "^rows|template|cannot encode", [*NO_TABLE, *BAD_FIELDS]),
    (["make_prompts"], "rows", "^rows: row 1 .* column 'answer'", cells(ROWS, "answer", [*NO_TEXT, [], {"1": 2}])),
    (["make_prompts"], "answer", "^rows: ", [*NO_SINGLE, None, "sum", ("answer",)]),
    (["exact_effects"], "metric", "^metric: .*indirect_effect, probability, logit", [*NO_SINGLE, None, "KL"]),
    (["scout"], "tables", "^tables: .* a CSV file|be read|does not exist", [None, 3, [3], "", "nowhere.csv"]),
    (["scout"], "templates", "template", BAD_WORDINGS),
    (["scout"], "seed", "^seed: ", [*NO_SINGLE, None, -1, 2.5]),
    (["scout"], "examples", "^examples: ", [*NO_SINGLE, None, -1, 2.5, "all"]),
    (OF_A_MODEL, "model", "^model: give what load_model returns", [None, MODEL.model, SOURCE]),
    (["mean_activations"], "prompts", "^prompts: ", NO_PROMPTS),
    (["answer", *CHANGES], "prompts", "^prompts: ", NO_ANSWERED_PROMPTS),
    (["answer", *CHANGES], "prompts", "^prompts: row 1 has .*accepted_tokens", NO_ACCEPTED),
    (EFFECTS, "clean", "^clean: |^corrupt: . prompts for", [*NO_ANSWERED_PROMPTS, *OTHER_NUMBER]),
    (EFFECTS, "clean", "^clean: row 1 has .*accepted_tokens", NO_ACCEPTED),
    (EFFECTS, "corrupt", "^corrupt: ", [*NO_ANSWERED_PROMPTS, *OTHER_NUMBER]),
    (EFFECTS, "corrupt", "^corrupt: row .*has the answer of its clean", [PROMPTS, TURNED.assign(answer_token=21)]),
    (["transfer"], "donors", "^donors: ", [*NO_PROMPTS, *OTHER_NUMBER]),
    (["exact_effects", *CHANGES], "neurons", "^neurons: ", [*NO_NEURONS, [], "3"]),
    (["exact_effects"], "neurons", "^neurons: the table has no row", [NEURONS[:0]]),
    (["keep_only", "knock_out"], "means", "^means: ", NO_MEANS),
    (["keep_only", "knock_out"], "positions", "^positions: .*one of all, last", [*NO_SINGLE, None, "first"]),
]
FORMS = [
    lambda table: table.astype(str),
    lambda table: table.astype(dict.fromkeys(table.select_dtypes("number"), float)),
    lambda table: table.astype(object),
    lambda table: table.astype("category"),
    lambda table: table.convert_dtypes(),
    lambda table: table.drop(columns=["template", "tokenizer"], errors="ignore"),
    lambda table: pd.read_csv(StringIO(table.to_csv(index=False))),
]
"""Tables that say the same."""
TABLES = [(name, argument) for name in RIGHT for argument, one in RIGHT[name].items() if type(one) is pd.DataFrame]


def call(function, arguments):
    return refusal(lambda: getattr(library, function)(**arguments))


EACH = [(function, *entry) for functions, *entry in WRONG for function in functions]


@pytest.mark.parametrize(("function", "argument", "named", "values"), EACH)
def test_a_wrong_value_is_refused(function, argument, named, values):
    for place, value in enumerate(values):
        found, said = call(function, {**RIGHT.get(function, {"model": MODEL}), argument: value})
        assert re.search(named, said), (place, value, found, said)
        assert len(said) < 1000


@pytest.mark.parametrize(("function", "argument"), TABLES)
def test_a_right_table_in_another_form_is_the_same(function, argument):
    expected = getattr(library, function)(**RIGHT[function])
    for place, value in enumerate(form(RIGHT[function][argument]) for form in FORMS):
        found, said = call(function, {**RIGHT[function], argument: value})
        assert not said, (place, value, said)
        if function == "mean_activations":
            torch.testing.assert_close(found.neurons, expected.neurons)
        else:
            made = expected.columns.difference([*(ROWS if function == "make_prompts" else PROMPTS)])
            one, other = (table[made].reset_index(drop=True) for table in (found, expected))
            pd.testing.assert_frame_equal(one, other, check_dtype=False)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("2020-01-01\n2021-12-31", {"parse_dates": ["a"]}),
        ("2020-01-01 00:00:00\n2021-12-31 10:30:00", {"parse_dates": ["a"]}),
        ("9007199254740991\n\n12", {}),
        ("9007199254740993\n\n12", {"dtype_backend": "numpy_nullable"}),
        ("9007199254740993\n0.50", {"dtype": str}),
    ],
)
def test_values_are_written_as_the_file_shows_them(text, options):
    rows = pd.read_csv(StringIO(f"a\n{text}"), skip_blank_lines=False, **options).dropna()
    made = library.make_prompts(MODEL, "{a}=", rows.assign(answer=1))
    assert made["prompt"].tolist() == [f"{line}=" for line in text.split("\n") if line]


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
