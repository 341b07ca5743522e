"""What scout prints, and the commented configuration that it writes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from tabulate import tabulate  # type: ignore[import-untyped]

from form_invariance.problems.tasks import Arithmetic, TableTask
from form_invariance.scouting.questions import FIRST, PROBLEMS, AskedQuestion
from form_invariance.scouting.sizes import Settings
from form_invariance.scouting.wordings import as_shown
from form_invariance.workflow.config_schema import as_name

_PLACES = ("units", "tens", "hundreds")
_SHOWN = 60
"""Characters of a wording in the table."""


@dataclass(frozen=True)
class Experiment:
    """What a configuration is made of, without its sizes.

    Attributes:
        settings: the model's source and, where they differ from the defaults, its other settings.
        width: neurons of a layer.
        questions: those of the chosen trials.
        chosen_trials: a trial for each format and operator.
        files: the tables without their worked examples, by operator.
        tasks: the other tasks.
        digits: at most this many digits of an answer are asked, the last ones.
    """

    settings: Mapping[str, str]
    width: int
    questions: Sequence[AskedQuestion]
    chosen_trials: pd.DataFrame
    files: Mapping[str, Path]
    tasks: Mapping[str, Any]
    seed: int
    digits: int = len(_PLACES)


def table(trials: pd.DataFrame) -> str:
    """The trials of one level as text: a row for each wording, a column for each number of examples."""
    counts = sorted(trials["examples"].unique())
    rows = [["format", "operator", "tokens", *(f"{count}-shot" for count in counts), "wording"]]
    for (name, operator, wording), wording_trials in trials.groupby(["format", "operator", "wording"], sort=False):
        fits = wording_trials[wording_trials["misfit"] == ""].set_index("examples")
        if fits.empty:
            continue
        shares = fits["by_digit"].map(_shares) + fits["chosen"].map({True: "*", False: ""})
        text = f'"{as_shown(str(wording))}"'
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        cells = shares.reindex(counts, fill_value="")
        rows.append([str(name), str(operator), str(fits["tokens"].min()), *cells, shown])
    lines = [tabulate(rows, "firstrow", "plain", disable_numparse=True)]
    misfits = trials.loc[trials["misfit"] != "", "misfit"]
    if len(misfits):
        lines.append(f"{len(misfits)} trials do not fit the tokenizer, the first because: {misfits.iloc[0]}")
    title = (
        f"Right answers to {trials['level'].iloc[0]}, {PROBLEMS} problems a trial, or {FIRST} where none of the "
        f"first {FIRST} is right; * is chosen."
    )
    return "\n".join([title, *lines, ""])


def _shares(by_digit: Sequence[float]) -> str:
    return " ".join(f"{share:.2f}" for share in by_digit)


def model_name(source: str) -> str:
    """The name of a model in a configuration."""
    return as_name(re.split(r"[/:]", source.rstrip("/"))[-1], "model")


def _text(value: str) -> str:
    """A text in YAML, in double quotes."""
    return yaml.dump(value, default_style='"', allow_unicode=True, width=math.inf).strip()


def _key(name: str) -> str:
    """A name in YAML, in quotes if it would be read as something else."""
    plain = re.fullmatch(r"[A-Za-z_][\w.-]*", name) and yaml.safe_load(name) == name
    return name if plain else _text(name)


def operators_of(question: AskedQuestion, most: int = len(_PLACES)) -> dict[str, int | None]:
    """The operators of a configuration that ask a question, with the digit of each: the last `most` digits."""
    if not question.digits:
        return {question.operator: None}
    last = question.digits - 1
    digits = range(max(0, question.digits - most), question.digits)
    return {f"{question.operator}_{_PLACES[last - digit]}": digit for digit in digits}


def configuration(experiment: Experiment, sizes: Settings) -> str:
    """The text of a configuration with comments."""
    lines = [f"seed: {experiment.seed}", "", "models:", f"  {_key(model_name(experiment.settings['source']))}:"]
    lines += [f"    {key}: {_text(value)}" for key, value in experiment.settings.items()]
    task = experiment.questions[0].task
    if isinstance(task, Arithmetic):
        lines += ["", "# Limits of the operands and of the answer, inclusive.", "operands:"]
        lines += [f"  {key}: {value}" for key, value in vars(task.limits).items()]
    lines += ["", "operators:"]
    for question in experiment.questions:
        for name, digit in operators_of(question, experiment.digits).items():
            lines.append(f"  {_key(name)}: {{{_operator(question, digit, experiment.files)}}}")
    lines += ["", "formats:"]
    for form, form_trials in experiment.chosen_trials.groupby("format", sort=False):
        lines += [f"  {_key(str(form))}:", "    templates:"]
        for question in experiment.questions:
            row = form_trials[form_trials["operator"] == question.operator].iloc[0]
            shares = _shares(row["by_digit"])
            lines.append(f"      # Right in {PROBLEMS} problems: {shares}. Worked examples: {row['examples']}.")
            first, *others = map(_key, operators_of(question, experiment.digits))
            anchor = f"template{row.name}"
            lines.append(f"      {first}: {f'&{anchor} ' if others else ''}{_text(row['template'])}")
            lines += [f"      {other}: *{anchor}" for other in others]
    tasks = {"specificity_tasks": dict(experiment.tasks)}
    lines += ["", "# Tasks that compute nothing, or something else, on which the circuits are tried."]
    lines += [yaml.safe_dump(tasks, sort_keys=False, allow_unicode=True, width=math.inf).rstrip()]
    lines += ["", "# Sizes: config/config.yaml explains each. All other keys are as there."]
    lines += [f"{key}: {value}" for key, value in sizes.items()]
    return "\n".join([*lines, ""])


def _operator(question: AskedQuestion, digit: int | None, files: Mapping[str, Path]) -> str:
    if isinstance(question.task, TableTask):
        named = "" if question.task.answer == "answer" else f", answer: {_text(question.task.answer)}"
        return f"table: {_text(str(files.get(question.operator, question.task.path)))}{named}"
    digit_text = "" if digit is None else f", digit: {digit}"
    return f"expression: {_text(question.task.expression)}{digit_text}"
