"""Tasks that are tables: what is read, and what is refused in one sentence."""

import json

import pytest

from form_invariance.errors import UserError
from form_invariance.problems.task_tables import NO_OPERAND, read_task_table


def written(folder, text):
    path = folder / "task.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_row_is_a_problem(tmp_path):
    path = written(tmp_path, "word,of,answer\nmouse,animal,mice\nnull,value,nulls\nmouse,pointer,mice\n")
    table = read_task_table(path, "answer")
    assert table["a"].tolist() == [0, 1, 2]
    assert (table["b"] == NO_OPERAND).all()
    # The same answer has the same number.
    assert table["answer"].tolist() == [0, 1, 0]
    assert table["target"].tolist() == ["mice", "nulls", "mice"]
    assert json.loads(table["fields"][1]) == {"word": "null", "of": "value"}


def test_any_column_may_have_the_answers(tmp_path):
    table = read_task_table(written(tmp_path, "plural,singular\nmice,mouse\nmen,man\n"), "plural")
    assert table["target"].tolist() == ["mice", "men"]
    assert json.loads(table["fields"][0]) == {"singular": "mouse"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("word,answr\na,b\nc,d\n", "has the columns word, answr; it must have the column 'answer'"),
        (
            "answer\na\nb\n",
            "has the columns answer; it must have the column 'answer', with the answers, and at least",
        ),
        ("word,answer\na,b\nc,\n", "column 'answer' in line 3 is empty"),
        ("word,answer\na,b\n c,d\n", "column 'word' in line 3 is empty, or begins or ends with a space"),
        ("word,answer\na,b\nc,d\na,e\n", "line 4 states a problem of an earlier line"),
        ("word,answer\na,b\nc,b\n", "needs at least two distinct answers, but has 1"),
        ("", "cannot be read as CSV in UTF-8: No columns to parse"),
        ("word,answer\na,b\nc,d,e,f\n", "cannot be read as CSV in UTF-8: "),
    ],
)
def test_a_table_that_breaks_a_rule_is_refused(tmp_path, text, said):
    with pytest.raises(UserError) as caught:
        read_task_table(written(tmp_path, text), "answer")
    assert said in str(caught.value)
    assert "task.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.csv cannot be read as CSV in UTF-8: .*No such file"):
        read_task_table(tmp_path / "none.csv", "answer")
    path = tmp_path / "task.csv"
    path.write_bytes(b"word,answer\n\xff\xfe,b\n")
    with pytest.raises(UserError, match="cannot be read as CSV in UTF-8"):
        read_task_table(path, "answer")
