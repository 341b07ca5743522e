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
from form_invariance.tables.files import read_json, write_json

UNDEFINED = "undefined"
"""Text in place of an undefined number."""
FIXED = "problems are resampled; operators, formats and directions are fixed"
"""What a 95 % interval accounts for."""


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
    """Write the answers about a model as JSON, with their lineage; `read_answers` reads them back."""
    content = [{**asdict(answer), "table": json.loads(answer.table.to_json(orient="split"))} for answer in answers]
    write_json(content, path, "answers", {}, {"model": model})


def read_answers(path: Path) -> tuple[str, list[Answer]]:
    """Read a model's name and the answers about it from their JSON file.

    Raises:
        UserError: the file is missing, damaged or changed.
    """
    content, provenance = read_json(path, "answers")
    answers = [
        Answer(
            answer["question"],
            answer["sentence"],
            pd.DataFrame(answer["table"]["data"], columns=answer["table"]["columns"]),
            tuple(answer["figures"]),
            answer["method"],
        )
        for answer in content
    ]
    return str(provenance["keys"]["model"]), answers


def method_of(stage: str) -> str:
    """How a stage finds its answer: the docstring of its module `compute`; empty if it has none."""
    path = stage_folders()[stage] / "compute.py"
    if not path.exists():
        return ""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def in_how_many(holds: pd.Series) -> str:
    """In how many of the rows something holds, in words."""
    part, whole = int(holds.sum()), len(holds)
    return f"in all {whole}" if part == whole else f"in {part or 'none'} of {whole}"


def percent(value: float, decimals: int = 0) -> str:
    """A share in percent, never minus zero; `undefined` for NaN."""
    return UNDEFINED if math.isnan(value) else f"{value:z.{decimals}%}"
