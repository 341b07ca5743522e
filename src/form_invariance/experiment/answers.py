"""Answers to the report's questions. A stage that answers one has a module `answer` with INPUTS and `answer`."""

import ast
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from form_invariance.stage_folders import stage_folders
from form_invariance.tables.files import reading, write_text

UNDEFINED = "undefined"
"""Text in place of an undefined number."""


@dataclass(frozen=True)
class Answer:
    """One question, answered for one model.

    Attributes:
        table: the numbers behind the sentence.
        figures: names of the figures that show it.
        method: how the answer is found; paragraphs, with code in backticks.
    """

    question: str
    sentence: str
    table: pd.DataFrame
    figures: tuple[str, ...] = ()
    method: str = ""

    @property
    def anchor(self) -> str:
        """The name of the question's section in the report's page."""
        return re.sub(r"[^a-z0-9]+", "-", self.question.lower()).strip("-")


def write_answers(model: str, answers: Sequence[Answer], path: Path) -> None:
    """Write the answers about a model as JSON; `read_answers` reads them back."""
    content = [{**asdict(one), "table": json.loads(one.table.to_json(orient="split"))} for one in answers]
    write_text(path, json.dumps({"model": model, "answers": content}, indent=1))


def read_answers(path: Path) -> tuple[str, list[Answer]]:
    """Read a model's name and the answers about it from their JSON file.

    Raises:
        UserError: the file is missing or broken.
    """
    with reading(path, "answers", LookupError, TypeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        answers = [
            Answer(
                one["question"],
                one["sentence"],
                pd.DataFrame(one["table"]["data"], columns=one["table"]["columns"]),
                tuple(one["figures"]),
                one["method"],
            )
            for one in content["answers"]
        ]
        return str(content["model"]), answers


def method_of(stage: str) -> str:
    """How a stage finds its answer: what its module `compute` says of itself; nothing if it has none."""
    path = stage_folders()[stage] / "compute.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" if path.exists() else ""


def in_how_many(holds: pd.Series) -> str:
    """In how many of the rows something holds, in words."""
    part, whole = int(holds.sum()), len(holds)
    return f"in all {whole}" if part == whole else f"in {part or 'none'} of {whole}"


def percent(value: float, decimals: int = 0) -> str:
    """A share in percent, never minus zero; `undefined` for NaN."""
    return UNDEFINED if math.isnan(value) else f"{value:z.{decimals}%}"
