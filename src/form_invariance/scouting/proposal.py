"""The configuration of the chosen trials, with the largest sizes that fit a time."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import TableTask, pool
from form_invariance.scouting import lowering, sizes
from form_invariance.scouting.questions import AskedQuestion, draw
from form_invariance.scouting.writing import Experiment, configuration, model_name
from form_invariance.stages.census.compute import take_census
from form_invariance.tables.progress import silent
from form_invariance.workflow.config_check import load
from form_invariance.workflow.paths import default_folder


def tables_without_examples(
    questions: Sequence[AskedQuestion], chosen_trials: pd.DataFrame, seed: int
) -> dict[str, str]:
    """The tables that give worked examples to a chosen template, without these rows, as CSV by operator."""
    tables = {}
    for question in questions:
        used = chosen_trials.loc[chosen_trials["operator"] == question.operator, "examples"].max()
        if isinstance(question.task, TableTask) and used:
            rows = pool(question.task)
            rows = rows[~rows["a"].isin(draw(question, seed, used)[0].head(used)["a"])]
            fields = pd.DataFrame(list(map(json.loads, rows["fields"])))
            table = fields.assign(**{question.task.answer: rows["target"].tolist()})
            tables[question.operator] = table.to_csv(index=False)
    return tables


def censuses(
    model: Decoder,
    tokenizer: PromptTokenizer,
    questions: Sequence[AskedQuestion],
    chosen_trials: pd.DataFrame,
    files: Mapping[str, Path],
    seed: int,
) -> sizes.Censuses:
    """The censuses that the run will take of its tables. Operators on numbers have none here.

    `files` are the tables without their worked examples, by operator.
    """
    by_cell = {}
    for question in questions:
        if isinstance(question.task, TableTask):
            task = TableTask(files.get(question.operator, question.task.path), question.task.answer)
            for row in chosen_trials[chosen_trials["operator"] == question.operator].to_dict("records"):
                with silent():
                    table = take_census(model, tokenizer, row["template"], question.operator, task, None, seed)
                by_cell[row["format"], question.operator] = table, row["template"]
    return by_cell


def fit(
    experiment: Experiment, censuses: sizes.Censuses, rate: float, longest: float
) -> tuple[str, dict[str, Any], float, list[str]]:
    """The largest experiment that fits a time.

    Args:
        censuses: those of the tables.
        rate: operations per second of the machine.
        longest: the time in seconds.

    Returns:
        The configuration as text; the same with the defaults of all other keys; its estimated seconds; and what it
        leaves out and why, in a sentence each.

    Raises:
        UserError: the model answers too few rows of a table right, or no experiment fits the time.
    """
    defaults = load(default_folder() / "config.yaml")
    table_shares = [float(table["correct"].mean()) for table, _ in censuses.values()]
    shares = table_shares or experiment.chosen_trials["right"].tolist()
    problems = math.inf if censuses else min(len(pool(question.task)) for question in experiment.questions)
    steps = sizes.steps(problems, min(shares))
    if censuses:
        steps = [sizes.of_tables(step, censuses, experiment.seed) for step in steps]
    left_out: dict[str, tuple[str, float]] = {}
    seconds = 0.0
    for smaller, settings, kind, subject in lowering.smaller(experiment, steps):
        if kind:
            left_out[kind] = subject, left_out.get(kind, ("", seconds))[1]
        text = configuration(smaller, settings)
        config = {**defaults, **yaml.safe_load(text)}
        seconds = sizes.seconds(config, model_name(experiment.settings["source"]), rate)
        if seconds <= longest:
            said = [
                f"{what}: with them the experiment takes {math.ceil(before / 60)} minutes"
                for what, before in left_out.values()
            ]
            return text, config, seconds, said
    raise UserError(
        f"--minutes {longest / 60:g}: the smallest experiment takes about {math.ceil(seconds / 60)} minutes at "
        f"{rate / 1e12:.2g} TFLOP/s; give this number of minutes, a smaller model, or the --tflops of another "
        "machine"
    )
