"""The first screen of the report: a row for each question, a column for each model."""

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from form_invariance.experiment.answers import Answer
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.verdicts.summary.answer import QUESTION
from form_invariance.verdicts.summary.lines import NOTHING, extent, numbers

_WIDTH, _HEIGHT, _MARGIN = 132, 18, 6

Row = Mapping[Hashable, Any]


def verdict_of(answers: Sequence[Answer]) -> Answer | None:
    """A model's answer about the verdict, if it has one."""
    return next((answer for answer in answers if answer.question == QUESTION), None)


def verdict_rows(answers: Mapping[str, Sequence[Answer]]) -> list[dict[str, Any]]:
    """Name, what is compared and cells of each question: a cell for each model, None where nothing is compared."""
    by_model = [_by_question(verdict_of(model_answers)) for model_answers in answers.values()]
    rows = {name: [by_question.get(name) for by_question in by_model] for name in QUESTIONS}
    return [
        {"name": QUESTIONS[name].label, "compared": QUESTIONS[name].compared, "cells": _cells(of_models)}
        for name, of_models in rows.items()
        if any(of_models)
    ]


def extents(answers: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    """A sentence for each model with a knockout: its right answers, and which differences they cannot decide."""
    for model, model_answers in answers.items():
        row = _by_question(verdict_of(model_answers)).get("necessary")
        if row and math.isfinite(row["high"] - row["low"]):
            half = (row["high"] - row["low"]) / 2
            yield (
                f"{model}: {extent(row)}. Differences below about {half:.2f} ({row['metric']}, lost by knockout) "
                "stay undecided; raise eval_prompts to decide smaller ones."
            )


def with_minus(text: str) -> str:
    """A text with minus signs in place of the hyphens of negative numbers."""
    return re.sub(r"(?<![\w-])-(?=[0-9])", "−", text)


def _by_question(answer: Answer | None) -> dict[str, Row]:
    """The rows of the verdict's table by the name of the question."""
    if answer is None:
        return {}
    names = {question.compared: name for name, question in QUESTIONS.items()}
    # JSON has None for NaN, so a column of NaN alone is not a column of floats.
    table = answer.table.astype(dict.fromkeys(("value", "control_value", "difference", "low", "high"), float))
    named = table.assign(question=table["question"].map(names))
    return {row["question"]: row for row in named.to_dict("records")}


def _cells(rows: Sequence[Row | None]) -> list[dict[str, Any] | None]:
    """A question's cells, one for each model; their axes have one scale."""
    ends = [0.0, *(row[name] for row in rows if row for name in ("low", "high") if math.isfinite(row[name]))]
    span = min(ends), max(*ends, min(ends) + 1e-9)
    return [_cell(row, span) if row else None for row in rows]


def _cell(row: Row, span: tuple[float, float]) -> dict[str, Any] | None:
    """What one model's cell shows; None if nothing is compared."""
    value, low, high = (row[name] for name in ("difference", "low", "high"))
    cell = {"verdict": row["verdict"], "metric": row["metric"], "drawn": ""}
    cell["numbers"] = numbers(row).replace("-", "−")
    if cell["numbers"] == NOTHING and not row["operator"]:
        return None
    cell["operators"] = with_minus(row["operator"])
    if all(map(math.isfinite, (value, low, high))):
        cell["drawn"] = Markup("".join(_interval(value, low, high, span)))
    return cell


def _interval(value: float, low: float, high: float, span: tuple[float, float]) -> Iterator[str]:
    """A value and its interval on an axis that the question's cells share, with a line at zero, as SVG."""

    def x(number: float) -> float:
        return round(_MARGIN + (_WIDTH - 2 * _MARGIN) * (number - span[0]) / (span[1] - span[0]), 1)

    middle = _HEIGHT / 2
    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">'
    yield f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{_HEIGHT}"/>'
    yield f'<line class="interval" x1="{x(low)}" x2="{x(high)}" y1="{middle}" y2="{middle}"/>'
    yield f'<circle cx="{x(value)}" cy="{middle}" r="3.5"/></svg>'
