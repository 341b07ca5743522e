"""Tasks that are tables: what is read, and what is refused in one sentence."""

import csv
import hashlib
import io
import json

import pytest
from hostile_values import FUZZ, refusal
from hypothesis import given
from hypothesis import strategies as st

from form_invariance.errors import UserError
from form_invariance.problems.task_tables import NO_OPERAND, first_fields, odd_spaces, read_task_table
from form_invariance.problems.tasks import TableTask, pool


def written(folder, text):
    path = folder / "task.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_row_is_a_problem(tmp_path):
    path = written(tmp_path, "\ufeffword,of,answer\r\nmouse,animal,mice\n\nnull,value,NA\nmouse,pointer,mice")
    assert first_fields(path) == {"word": "mouse", "of": "animal", "answer": "mice"}
    table = read_task_table(path, "answer")
    assert table["a"].tolist() == [0, 1, 2]
    assert (table["b"] == NO_OPERAND).all()
    # The same answer has the same number.
    assert table["answer"].tolist() == [0, 1, 0]
    assert table["target"].tolist() == ["mice", "NA", "mice"]
    assert json.loads(table["fields"][1]) == {"word": "null", "of": "value"}


def test_a_table_that_has_changed_since_the_run_began_is_refused(tmp_path):
    path = written(tmp_path, "word,answer\nmouse,mice\nman,men\n")
    task = TableTask(path, "answer", hashlib.sha256(path.read_bytes()).hexdigest())
    assert pool(task)["target"].tolist() == ["mice", "men"]
    written(tmp_path, "word,answer\nmouse,mice\nman,ken\n")
    with pytest.raises(UserError, match=rf"^{path} has changed since the run began; run snakemake again"):
        pool(task)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("word,answr\na,b\nc,d\n", "has the columns word, answr; it must have the column 'answer'"),
        ("word,answer\na,b\nc,b\n", "needs at least two distinct answers, but has 1"),
        ("word;answer\na, b;c\nd;e\n", "'word;answer' are separated by ';'; separate all values by commas"),
        ('word,answer\n"a\nb",c\n"d\r\ne",f\n"g ",h\n', "column 'word' in line 6 is empty, or begins or ends"),
        ('word,answer\n"a\nb",c\n\nd,e\n"a\nb",f\n', "line 7 states a problem of an earlier line"),
        (b"word,answer\n\xff\xfe,b\n", "cannot be read as CSV in UTF-8"),
    ],
)
def test_a_table_that_breaks_a_rule_is_refused(tmp_path, text, said):
    path = written(tmp_path, text)
    _, found = refusal(read_task_table, path, "answer")
    assert said in found
    assert str(path) in found


def test_no_break_and_zero_width_spaces_are_named_by_line(tmp_path):
    rows = ["New York,a", "New\u00a0York,b", "\u0645\u06cc\u200c\u062e\u0648\u0631\u0645,Ro\u200bme"]
    rows += ["x\ufeffy,b"] * 5
    (found, other) = odd_spaces(written(tmp_path, "\ufeffcity,answer\n" + "\n".join(rows)))
    said = "has a no-break or zero-width space in lines"
    assert f"column 'city' {said} 3, 5, 6, 7, 8 and 1 more ('New\\xa0York')" in found
    assert f"column 'answer' {said} 4 ('Ro\\u200bme')" in other


WRITTEN = ["a,b\n", "c,d\r\n", "\n", '"a\nb",c\n', 'g,"h""i"\r', "  \r\n", "j,k"]
ANY = [*WRITTEN, "e, f\n", 'l,"m\n', "n,o,\n", ",p\n"]


@FUZZ
@given(st.lists(st.sampled_from(WRITTEN) | st.sampled_from(ANY), min_size=2, max_size=5, unique=True).map("".join))
def test_any_text_is_a_table_or_one_sentence(tmp_path_factory, text):
    """A table has the rows that Python's csv reads."""
    path = written(tmp_path_factory.mktemp("csv"), "a,b\n" + text)
    table, said = refusal(read_task_table, path, "b")
    if not said:
        words = [json.loads(one)["a"] for one in table["fields"]]
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if "".join(row).strip()]
        assert [*map(list, zip(words, table["target"], strict=True))] == rows
