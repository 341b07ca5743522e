"""Options of commands, and patterns of wildcards, that rules are made of."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from form_invariance.problems.configured import copies

_RUNNING = {"dtype": "float32", "device": "auto", "readout": "near"}
"""How a model runs by default."""


def one_of(names: Iterable[str]) -> str:
    """A pattern that matches these names and nothing else; without names it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def option(name: str, value: Any) -> list[str]:
    """An option of a command, as one param of a rule; True and False become --NAME and --no-NAME.

    Name and value are in one param, because Snakemake compares a job's params as a set, in which two bare numbers
    could change places unseen. A list is sorted, because its order does not matter.
    """
    if isinstance(value, bool):
        return [_option(name if value else f"no_{name}")]
    values = sorted(value) if isinstance(value, list) else [value]
    return [_option(name), *map(str, values)]


def joined_options(values: Mapping[str, Any]) -> list[str]:
    """Options of a command, each one word --NAME=VALUE, because a value may begin with a dash."""
    return [f"{_option(name)}={value}" for name, value in values.items()]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def settings_of(config: Mapping[str, Any], *keys: str, **renamed: str) -> list[str]:
    """Settings of the configuration as a command's options, named like their keys or given as OPTION=KEY."""
    names = {key: key for key in keys} | renamed
    return [word for name, key in names.items() for word in option(name, config[key])]


def task_options(operator: Any, limits: Mapping[str, int], digests: Mapping[str, str]) -> list[str]:
    """Options that say what an operator of the configuration asks: an expression within limits, or a table.

    Args:
        limits: the default limits of the operands; an operator may change them.
        digests: sha256 of every table, by its path.
    """
    if isinstance(operator, str):
        operator = {"expression": operator}
    if "table" in operator:
        table, answer = operator["table"], operator.get("answer", "answer")
        return joined_options({"table": table, "table_sha256": digests[table], "answer_column": answer})
    digit = {"digit": operator["digit"]} if "digit" in operator else {}
    return joined_options(
        {"expression": operator["expression"], **limits, **operator.get("operands", {}), **digit}
    )


def expression_of(operator: Any) -> str | None:
    """The expression of an operator that asks for a whole number; None if it asks for a digit or has a table."""
    if isinstance(operator, str):
        return operator
    return None if "digit" in operator else operator.get("expression")


def is_table(operator: Any) -> bool:
    """Whether an operator of the configuration has a table."""
    return not isinstance(operator, str) and "table" in operator


def tables_of(config: Mapping[str, Any]) -> list[str]:
    """The tables of operators and of other tasks, each once."""
    tasks = [*config["operators"].values(), *config.get("specificity_tasks", {}).values()]
    return list(dict.fromkeys(task["table"] for task in tasks if is_table(task)))


def other_tasks(config: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    """The other tasks of a configuration as JSON, each table with its sha256."""
    tasks = config.get("specificity_tasks", {})
    return json.dumps(
        {
            name: {**task, "sha256": digests[task["table"]]} if is_table(task) else task
            for name, task in tasks.items()
        }
    )


def task_sizes(config: Mapping[str, Any]) -> list[int]:
    """Sizes of the circuits that are knocked out on other tasks: the key `specificity_k`; default: `k_shown`."""
    return sorted(config.get("specificity_k") or [config["k_shown"]])


def dose_sizes(config: Mapping[str, Any]) -> list[int]:
    """The sizes along the dose: those of `best_k` up to half of the candidates, and those of other tasks.

    The other half is for controls of equal norm, which are candidates outside the best.
    """
    return sorted({*task_sizes(config), *(k for k in config["best_k"] if k <= config["candidates"] / 2)})


def copying_tasks(config: Mapping[str, Any]) -> str:
    """The other tasks whose answer is an operand, as JSON, with the limits of their operands."""
    tasks = {name: task for name, task in config.get("specificity_tasks", {}).items() if copies(task)}
    limits = config["operands"]
    return json.dumps(
        {name: {**task, "operands": {**limits, **task.get("operands", {})}} for name, task in tasks.items()}
    )


def asked_of(operator: Any) -> str:
    """What an operator asks, in words: ``a + b``, ``digit 1 of a + b``, or ``answer in tasks/plural.csv``."""
    if expression := expression_of(operator):
        return expression
    if "table" in operator:
        return f"{operator.get('answer', 'answer')} in {operator['table']}"
    return f"digit {operator['digit']} of {operator['expression']}"


def run_options(model: Mapping[str, Any], *keys: str) -> list[str]:
    """Options that say where a model of the configuration comes from, and how it runs.

    `keys` are those of `_RUNNING` that the command uses. Their defaults are options too, so that writing a default
    into the configuration re-runs nothing.
    """
    revision = {"revision": model["revision"]} if "revision" in model else {}
    running = {key: model.get(key, _RUNNING[key]) for key in keys}
    return joined_options({"model": model["source"], **revision, **running})
