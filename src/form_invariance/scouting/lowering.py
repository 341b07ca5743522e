"""Experiments that leave out more and more, until one fits its minutes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from form_invariance.scouting.other_tasks import few_tasks
from form_invariance.scouting.sizes import CANDIDATES, Settings, circuits
from form_invariance.scouting.writing import Experiment

ENOUGH = 200
"""Candidates that are kept until the prompts are at their fewest, because a circuit of 50 needs them."""

Smaller = tuple[Experiment, Settings, str, str]
"""An experiment, its sizes, the kind of things that it leaves out, and these things in words."""


def smaller(experiment: Experiment, steps: Sequence[Settings]) -> Iterator[Smaller]:
    """The largest experiment, then ever smaller ones, with prompts from the steps of `sizes.steps`.

    They leave out, in this order: tasks, sizes of k, candidates, prompts, digits, operators, formats.
    """
    numbers = [number for number in CANDIDATES if number < experiment.width]
    most = min(CANDIDATES[0], experiment.width)
    step, candidates = steps[-1], most
    yield experiment, {**step, **circuits(most)}, "", ""
    tasks = few_tasks(experiment.tasks)
    if gone := [name for name in experiment.tasks if name not in tasks]:
        experiment = replace(experiment, tasks=tasks)
        yield experiment, {**step, **circuits(most)}, "tasks", f"tasks {', '.join(gone)}"
    fewer = circuits(most, few=True)
    if gone := [str(k) for k in circuits(most)["k"] if k not in fewer["k"]]:
        yield experiment, {**step, **fewer}, "k", f"circuit sizes {', '.join(gone)}"

    def with_candidates(largest_first: Sequence[int]) -> Iterator[Smaller]:
        for number in largest_first:
            settings = {**step, **circuits(number, few=True)}
            yield experiment, settings, "candidates", f"candidates {number + 1} to {most}"

    for lowered in with_candidates([number for number in numbers if number >= ENOUGH]):
        candidates = lowered[1]["candidates"]
        yield lowered
    for step in reversed(steps[:-1]):
        prompts = (
            f"prompts beyond {step['train_prompts']} to rank neurons and {step['eval_prompts']} to test circuits"
        )
        yield experiment, {**step, **circuits(candidates, few=True)}, "prompts", prompts
    yield from with_candidates([number for number in numbers if number < ENOUGH])
    settings = {**step, **circuits(min([*numbers, most]), few=True)}
    if max(question.digits for question in experiment.questions) > 2:
        experiment = replace(experiment, digits=2)
        yield experiment, settings, "digits", "digits before the tens"
    for column, fewest in (("operator", 1), ("format", 2)):
        names = _worst_first(experiment.chosen_trials, column)
        for number in range(1, len(names) - fewest + 1):
            experiment = _without(experiment, column, names[number - 1])
            yield experiment, settings, column, f"{column}s {', '.join(names[:number])}"


def _worst_first(chosen_trials: pd.DataFrame, column: str) -> list[str]:
    """Formats or operators by the right answers in their worst cell, the fewest first."""
    worst = chosen_trials.groupby(column, sort=False)["right"].min()
    return worst.sort_values(kind="stable").index.tolist()


def _without(experiment: Experiment, column: str, name: str) -> Experiment:
    chosen_trials = experiment.chosen_trials[experiment.chosen_trials[column] != name]
    if column == "operator":
        questions = [question for question in experiment.questions if question.operator != name]
        files = {operator: path for operator, path in experiment.files.items() if operator != name}
        return replace(experiment, chosen_trials=chosen_trials, questions=questions, files=files)
    return replace(experiment, chosen_trials=chosen_trials, tasks=_tasks_without(experiment.tasks, name))


def _tasks_without(tasks: Mapping[str, Any], form: str) -> dict[str, Any]:
    templates = {
        name: {format_name: text for format_name, text in task["templates"].items() if format_name != form}
        for name, task in tasks.items()
    }
    return {name: {**task, "templates": templates[name]} for name, task in tasks.items() if templates[name]}
