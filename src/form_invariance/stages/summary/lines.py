"""The verdicts on one model as a few lines of text."""

from collections.abc import Iterator

import pandas as pd

from form_invariance.stages.questions import QUESTIONS
from form_invariance.stages.specificity.table import ALL
from form_invariance.stages.verdicts import deciding


def verdicts_at(table: pd.DataFrame, k: int) -> pd.DataFrame:
    """One row a question at one circuit size, by the contrast that decides it.

    Args:
        table: the verdicts table of a model.
    """
    own = table[(table["k"] == k) & (table["operator"] == ALL)]
    return pd.DataFrame([deciding(of) for _, of in own.groupby("question", sort=False)])


def by_operator(table: pd.DataFrame, k: int, question: str, metric: str) -> str:
    """The difference and the verdict for each operator; empty where there is one operator.

    Args:
        table: the verdicts table of a model.
    """
    rows = table[(table["k"] == k) & (table["question"] == question) & (table["metric"] == metric)]
    rows = rows[(rows["operator"] != ALL) & (rows["verdict"] != "undefined")]
    if len(rows) < 2:
        return ""
    return ", ".join(f"{row.operator} {row.difference:+.2f} {row.verdict}" for row in rows.itertuples(index=False))


def verdict_lines(table: pd.DataFrame, model: str, k: int) -> Iterator[str]:
    """A heading, and a line a question: verdict, difference with its interval, and what the difference is."""
    yield f"{model}, k = {k} neurons of each late layer"
    for row in verdicts_at(table, k).to_dict("records"):
        numbers = "nothing to compare"
        if row["verdict"] != "undefined":
            numbers = (
                f"{row['value']:.2f} against {row['control_value']:.2f}: "
                f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            )
        question = QUESTIONS[row["question"]]
        compared = f"{question.compared} ({row['metric']})"
        yield f"  {question.label:<42} {row['verdict']:<10} {numbers:<44} {compared}"
        if operators := by_operator(table, k, row["question"], row["metric"]):
            yield f"    {operators}"
