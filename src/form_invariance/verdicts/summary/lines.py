"""The verdicts as a few lines of text."""

from collections.abc import Hashable, Iterator, Mapping
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.questions import LAYERS, QUESTIONS, SERVES, SMALLEST, Part
from form_invariance.experiment.contrasts.values import RATE
from form_invariance.experiment.contrasts.verdicts import deciding, worded
from form_invariance.statistics import less
from form_invariance.tables.columns import ALL

NOTHING = "nothing to compare"
"""What replaces the numbers."""
_LINE = f"  {{:<{1 + max(len(question.label) for question in QUESTIONS.values())}}} {{:<9}} {{}}"
"""The format of question, verdict and numbers."""
_INDENT = " " * len(_LINE.format("", "", ""))

LEGEND = (
    "  Values: Jaccard (Same neurons?), share of answers (donors, states), layers (Do the formats meet?), else",
    "  probability of the right answer; in brackets 95 % intervals. Numbers are rounded. n: pairs.",
    f"  Tiny: below {SMALLEST}. Mixed: yes for one operator, no for another (verdicts --operators shows all).",
)
"""Printed once, below the lines of all models."""
BETWEEN = "  Difference: the first model's result less the second's; its interval takes them as independent."
"""Printed below the legend, where two models are side by side."""


def verdicts_at(table: pd.DataFrame, k: int) -> pd.DataFrame:
    """One row for each question at one circuit size: that of the contrast that decides it.

    Args:
        table: the verdicts table of a model.
    """
    rows = table[(table["k"] == k) & (table["operator"] == ALL)]
    decides = [part_of(row).decides for row in rows.to_dict("records")]
    return pd.DataFrame([deciding(of) for _, of in rows[decides].groupby("question", sort=False)])


def part_of(row: Mapping[Hashable, Any]) -> Part:
    """The contrast of a row of verdicts."""
    return QUESTIONS[row["question"]].parts[row["metric"]]


def by_operator(table: pd.DataFrame, k: int, question: str, metric: str) -> str:
    """The difference, or the ratio, and the verdict for each operator; empty with one operator.

    Args:
        table: the verdicts table of a model.
    """
    rows = table[(table["k"] == k) & (table["question"] == question) & (table["metric"] == metric)]
    rows = rows[(rows["operator"] != ALL) & (rows["verdict"] != "undefined")]
    if len(rows) < 2:
        return ""
    margin = QUESTIONS[question].parts[metric].margin
    values = (rows["difference"] + margin).map("{:z.2f}".format) if margin else rows["difference"].map(signed)
    return "; ".join(rows["operator"] + " " + values + " " + [said(row) for row in rows.to_dict("records")])


def verdict_lines(table: pd.DataFrame, model: str, k: int, operators: bool = False) -> Iterator[str]:
    """Two headings, and a line for each question: its verdict, the two values, their difference and its interval.

    Args:
        operators: add below each line what is compared, and the verdicts on each operator. Each question with
            nothing to compare has a line, too; otherwise these questions share one.
    """
    yield f"{model}, k = {k} neurons of each late layer"
    yield _LINE.format("question", "verdict", "values = difference or ratio [95 % interval]")
    empty, notes = [], []
    for row in verdicts_at(table, k).to_dict("records"):
        question = QUESTIONS[row["question"]]
        compared = numbers(row)
        if compared == NOTHING and not operators:
            empty.append(question.label)
            continue
        label = question.label
        if part_of(row).drawn:
            label += "*"
            notes.append(question.drawn_for(row["metric"]).replace("−", "-"))
        yield from wrap(_LINE.format(label, said(row), compared), 100, subsequent_indent=_INDENT)
        if operators:
            each = by_operator(table, k, row["question"], row["metric"])
            for more in (f"{question.compared} ({row['metric']})", each):
                yield from wrap(more, 100, initial_indent="    ", subsequent_indent="    ")
    if notes:
        yield f"  * {'; '.join(notes)}"
    if empty:
        yield f"  Not testable: {empty[0] if len(empty) == 1 else f'{len(empty)} other questions'}"


def side_by_side(tables: Mapping[str, pd.DataFrame], ks: Mapping[str, int]) -> Iterator[str]:
    """For each question that all models can test, and each contrast that decides it for one: a line a model.

    For two models, a further line has the first one's difference minus the second one's, as if independent.

    Args:
        tables: verdicts table by model.
        ks: circuit size by model.
    """
    sizes = {f"k = {k}" for k in ks.values()}
    models = tables if len(sizes) == 1 else [f"{model} (k = {k})" for model, k in ks.items()]
    yield f"{', '.join(models)}: {sizes.pop() if len(sizes) == 1 else 'k'} neurons of each late layer"
    decided = {model: verdicts_at(table, ks[model]).set_index("question") for model, table in tables.items()}
    line = f"    {{:<{max(map(len, tables))}}}  {{:<9}} {{}}"
    fewer: dict[str, int] = {}  # questions that cannot be tested, by model
    for name, question in QUESTIONS.items():
        lacking = [model for model, table in decided.items() if _untestable(name, table)]
        for model in lacking if len(lacking) < len(tables) else ():
            fewer[model] = fewer.get(model, 0) + 1
        metrics = () if lacking else dict.fromkeys(str(table.loc[name, "metric"]) for table in decided.values())
        for metric in metrics:
            compared = question.drawn_for(metric).replace("−", "-").removeprefix("1.5 layers - ")
            yield f"  {question.label} ({compared.removesuffix(f' - {question.parts[metric].margin}')})"
            rows = []
            for model, table in tables.items():
                keys = {"question": name, "metric": metric, "k": ks[model], "operator": ALL}
                matching = table[(table[[*keys]] == pd.Series(keys)).all(axis=1)].to_dict("records")
                rows += [row for row in matching if row["verdict"] != "undefined"]
                # An optional contrast has no row where it is undefined.
                words = (said(matching[0]), numbers(matching[0])) if matching else ("undefined", NOTHING)
                yield from wrap(line.format(model, *words), 100, subsequent_indent=16 * " ")
            if len(rows) == len(tables) == 2 and metric != LAYERS:
                yield line.format("difference", "", between(*rows))
    for model, count in fewer.items():
        yield f"  {count} more question{'s' * (count > 1)} cannot be tested in {model}."


def between(first: Mapping[Hashable, Any], second: Mapping[Hashable, Any]) -> str:
    """One model's difference, or ratio, minus another's, with its limits."""
    value, low, high = less(*((row["difference"], row["low"], row["high"]) for row in (first, second)))
    return f"{signed(value)} [{signed(low)}, {signed(high)}]"


def _untestable(question: str, table: pd.DataFrame) -> bool:
    """Whether there is nothing to compare; `table`: `verdicts_at`, indexed by question."""
    if question not in table.index:
        return True
    return numbers({"question": question, **table.loc[question].to_dict()}) == NOTHING


def said(row: Mapping[Hashable, Any]) -> str:
    """The verdict in words; a *yes* by a difference below `SMALLEST` is tiny."""
    return str(row["verdict"]) if part_of(row).margin else worded(row["verdict"], row["difference"])


def numbers(row: Mapping[Hashable, Any]) -> str:
    """The two values and their difference with its limits, or why there is none."""
    if row["verdict"] != "undefined":
        size = f", at k = {row['at_k']}" if row["at_k"] != row["k"] else ""
        note = row["note"] and f"; {row['note']}"
        if row["question"] == "meet":
            distance, low, high = (f"{row['value'] - row[name]:z.2f}" for name in ("difference", "high", "low"))
            return f"{distance} [{low}, {high}] layers apart, needs at most {row['value']:g}"
        return f"{sides(row)} = {interval(row)}{pairs(row)}{size}{note}"
    if part_of(row).margin and not np.isnan(row["control_value"]):
        return f"{sides(row)}: the second value may be zero"
    return NOTHING


def extent(row: Mapping[Hashable, Any]) -> str:
    """The number of right answers that an ablation was measured on."""
    return f"n = {row['prompts']:,} right answers in {row['cells']} cell{'s' * (row['cells'] != 1)}"


def pairs(row: Mapping[Hashable, Any]) -> str:
    """The number of pairs of a difference of rates, because it differs between questions; else empty."""
    return f", n={row['prompts']:,}" if part_of(row).of == RATE else ""


def signed(value: float) -> str:
    """A number with its sign and two decimals, or as many more as two digits need; never minus zero."""
    decimals = 4 if 5e-5 <= abs(value) < 0.0095 else 3 if 5e-5 <= abs(value) < 0.095 else 2
    return f"{value:+z.{decimals}f}"


def sides(row: Mapping[Hashable, Any]) -> str:
    """The two values that are compared; with a margin their ratio."""
    value, compared = (signed(row[name]).removeprefix("+") for name in ("value", "control_value"))
    if row["question"] == "served":
        compared = f"{SERVES} x {signed(row['control_value'] / SERVES).removeprefix('+')}"
    return f"{value} {'/' if part_of(row).margin else '-'} {compared}"


def interval(row: Mapping[Hashable, Any]) -> str:
    """The difference with its limits; with a margin the ratio with its own, and the margin."""
    values = [row[name] for name in ("difference", "low", "high")]
    if margin := part_of(row).margin:
        value, low, high = (f"{number + margin:z.2f}" for number in values)
        return f"{value} [{low}, {high}], needs {margin}"
    value, low, high = map(signed, values)
    return f"{value} [{low}, {high}]"
