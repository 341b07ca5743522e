"""Check a whole configuration before any job starts. Each mistake is reported in one sentence."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from form_invariance.errors import UserError
from form_invariance.experiment.groups import VARIANT
from form_invariance.json_yaml import read_yaml
from form_invariance.problems.configured import check_template_fields, task_of
from form_invariance.problems.tasks import Arithmetic, TableTask, Task, check_places, check_wording, is_whole, pool
from form_invariance.tables.files import write_text
from form_invariance.workflow.config_schema import RESERVED, check_name, check_schema, check_spelling, hint
from form_invariance.workflow.file_digests import state_of
from form_invariance.workflow.model_checks import (
    check_enough,
    check_models,
    check_sources,
    known_folder,
    under,
)
from form_invariance.workflow.rule_options import tables_of

_TEMPLATE_ENGINE = "__use_yte__"
_SOURCES = ("config", "docs", "envs", "models", "profiles", "slurm", "src", "tests", "workflow")
_READ_SLOWLY = (
    *("models", "operators", "formats", "operands", "variant_operators", "corrupt", "specificity_tasks"),
    *("k", "best_k", "specificity_k", "candidates", "late_from", "k_shown"),
    *("census_pairs", "train_prompts", "eval_prompts"),
)
"""The keys that the slow checks read."""
_REMEMBERED = 20
"""How many configurations without mistakes are remembered."""


def load(path: Path) -> dict[str, Any]:
    """Read a configuration file."""
    content = read_yaml(path)
    if _TEMPLATE_ENGINE in content:
        raise UserError(
            f"{path} has the key {_TEMPLATE_ENGINE}, which makes Snakemake run Python from this file; remove it"
        )
    return content


def _check_texts(value: Any, key: str = "") -> None:
    """Check that every text of a configuration can be an argument of a command."""
    if isinstance(value, Mapping | list):
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            _check_texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, str):
        try:
            if b"\0" not in os.fsencode(value):
                return
            advice = "remove its character NUL"
        except UnicodeEncodeError as error:
            advice = f"{error.encoding} has no {value[error.start]!a}; write another one, or set PYTHONUTF8=1"
        raise UserError(f"config key {key}: {value!a} cannot be an argument of a command: {advice}")


def _check_names(config: Mapping[str, Any]) -> None:
    """Check the names of models, operators and formats, and of the results folder."""
    for section in RESERVED:
        for name in config[section]:
            check_name(name, section, f"config key {section}")
    if (folder := PurePosixPath(config["results"]).parts[0]) in _SOURCES:
        raise UserError(f"config key results: {folder!r} is a folder of the project; choose another")
    if odd := [name for name in config["formats"] if "_to_" in name]:
        raise UserError(
            f"config key formats: {odd[0]!r} contains '_to_', which joins the formats of a transfer; rename it"
        )


def _tasks(config: Mapping[str, Any]) -> dict[str, Task]:
    """The task of each operator; a table must be readable."""
    tasks = {}
    for name, operator in config["operators"].items():
        with under(f"operators.{name}"):
            tasks[name] = task_of(operator, config["operands"])
            if isinstance(tasks[name], TableTask):
                pool(tasks[name])
    digits = [name for name, task in tasks.items() if isinstance(task, Arithmetic) and not is_whole(task)]
    if digits and config["corrupt"] == "across_operators":
        raise UserError(
            f"config key corrupt: {digits[0]} asks for a digit, and its partners must share the digits before it; "
            "write within_operator"
        )
    return tasks


def _check_templates(config: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
    """Check that a format has a template for every operator, and that all texts have their operator's fields."""
    for name, format_settings in config["formats"].items():
        templates, variants = format_settings["templates"], format_settings.get("variants", {})
        for operator in config["operators"]:
            if operator not in templates:
                advice = hint(operator, templates, "add one", similarity=0.8)
                raise UserError(
                    f"config key formats.{name}.templates: operator {operator!r} has no template; {advice}"
                )
        for operator in variants:
            if operator not in templates:
                advice = hint(operator, templates, f"it has templates for {', '.join(templates)}")
                raise UserError(
                    f"config key formats.{name}.variants: {operator!r} is not an operator of this format; {advice}"
                )
        texts = [(operator, f"templates.{operator}", text) for operator, text in templates.items()]
        texts += [
            (operator, f"variants.{operator}[{number}]", text)
            for operator, variant_texts in variants.items()
            for number, text in enumerate(variant_texts)
        ]
        for operator, key, text in texts:
            if operator in tasks:
                check_wording(tasks[operator], text, f"config key formats.{name}.{key}")


def _check_numbers(config: Mapping[str, Any]) -> None:
    """Check the numbers that limit one another."""
    for kind in ("operand", "answer"):
        low, high = (config["operands"][f"{kind}_{end}"] for end in ("min", "max"))
        if low > high:
            raise UserError(
                f"config key operands: no number is in {low}..{high}; {kind}_max must be at least {kind}_min"
            )
    for key in ("k", "specificity_k"):
        largest = max(config.get(key) or [1])
        if largest > config["candidates"]:
            raise UserError(
                f"config key {key}: {largest} is larger than candidates ({config['candidates']}), and only "
                f"candidates are ranked; lower {key} or raise candidates"
            )


def template_of(config: Mapping[str, Any], name: str, operator: str) -> str:
    """The template of a cell, or the text of a variant if the format is FORMAT~N."""
    form, _, number = name.partition(VARIANT)
    format_settings = config["formats"][form]
    text: str = (
        format_settings["variants"][operator][int(number) - 1]
        if number
        else format_settings["templates"][operator]
    )
    return text


def measured_variants(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The cells (FORMAT~N, operator) of the variants that are ranked."""
    ranked_operators = [
        operator for operator in config["operators"] if operator in config.get("variant_operators", [])
    ]
    return [
        (f"{name}{VARIANT}{number}", operator)
        for name, format_settings in config["formats"].items()
        for operator in ranked_operators
        for number, _ in enumerate(format_settings.get("variants", {}).get(operator, []), 1)
    ]


def _check_variants(config: Mapping[str, Any]) -> None:
    """Check the spelling of variant_operators; partners of other operators need a variant of the same number."""
    for operator in config.get("variant_operators", []):
        check_spelling("variant_operators", operator, "an operator", config["operators"])
    for cell, operator in measured_variants(config):
        name, _, number = cell.partition(VARIANT)
        for other in config["operators"] if config["corrupt"] == "across_operators" else ():
            variant_count = len(config["formats"][name].get("variants", {}).get(other, []))
            if variant_count < int(number):
                raise UserError(
                    f"config key formats.{name}.variants: {operator} has variant {number}, but {other} has "
                    f"{variant_count}; with corrupt: across_operators all operators need equally many"
                )


def _check_tasks(config: Mapping[str, Any]) -> None:
    """Check names, tasks and templates of specificity_tasks, and that the plain text exists."""
    for name, task in config.get("specificity_tasks", {}).items():
        key = f"config key specificity_tasks.{name}"
        check_name(name, "operators", "config key specificity_tasks")
        if name in config["operators"]:
            raise UserError(f"{key}: choose another name, that is not an operator's")
        if ("expression" in task) == ("table" in task):
            raise UserError(f"{key}: write one of expression (with digit or operands) and table (with answer)")
        with under(f"specificity_tasks.{name}"):
            parsed_task = task_of(task, config["operands"])
            if isinstance(parsed_task, TableTask):
                pool(parsed_task)
        for format_name, template in task["templates"].items():
            check_template_fields(parsed_task, template, f"{key}.templates.{format_name}")
    text = config.get("specificity_text")
    if text and not Path(text).is_file():
        raise UserError(f"config key specificity_text: there is no file {text!r}; name a file with plain text")


def _digest(config: Mapping[str, Any]) -> str:
    """Digest of the keys that the slow checks read, and of the states of the files that the keys name."""
    files = [Path(table) for table in tables_of(config)]
    for model in config["models"].values():
        folder = known_folder(model)
        files += sorted(filter(Path.is_file, folder.iterdir())) if folder else []
    states = [f"{path} {state_of(path.stat())}" for path in files]
    return hashlib.sha256(json.dumps([config, states], sort_keys=True).encode()).hexdigest()


def check(config: Mapping[str, Any], schema: Mapping[str, Any], remembered: Path | None = None) -> None:
    """Check a whole configuration.

    Args:
        schema: JSON schema of the configuration.
        remembered: file with digests of the last configurations without mistakes, for which the slow checks
            (tokenizers, operand pools) are not repeated.
    """
    check_schema(config, schema)
    _check_texts(config)
    _check_names(config)
    tasks = _tasks(config)
    _check_templates(config, tasks)
    _check_numbers(config)
    _check_variants(config)
    _check_tasks(config)
    check_sources(config)
    seen = {key: config[key] for key in _READ_SLOWLY if key in config}
    digest = _digest(seen)
    digests = remembered.read_text(errors="replace").split() if remembered and remembered.exists() else []
    if digest in digests:
        return
    _check_slowly(seen, tasks)
    if remembered:
        write_text(remembered, "\n".join([*digests, digest][-_REMEMBERED:]))


def _check_slowly(config: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
    """The checks that read tokenizers and make operand pools. `config` has only the keys of `_READ_SLOWLY`."""
    check_models(config, {cell: template_of(config, *cell) for cell in measured_variants(config)})
    # After the tokenizers' checks, which limit the operands, because a pool contains all pairs of operands.
    for name, task in tasks.items():
        problems = pool(task)
        with under(f"operators.{name}"):
            check_places(task)
            check_enough(len(problems), config)
    for name, task in config.get("specificity_tasks", {}).items():
        with under(f"specificity_tasks.{name}"):
            pool(task_of(task, config["operands"]))
    if config["k_shown"] not in config["k"]:
        raise UserError(
            f"config key k_shown: {config['k_shown']} is not in k ({sorted(config['k'])}); add it there, "
            "or choose one of these"
        )


def read(user_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The default configuration with its top-level keys replaced by the user's, checked.

    Args:
        folder: contains config.yaml, the default, and schemas/config.schema.yaml.

    Raises:
        UserError: at the first mistake.
    """
    config = {**load(folder / "config.yaml"), **user_config}
    check(config, load(folder / "schemas/config.schema.yaml"), Path(".snakemake/checked_config"))
    # The tasks of the default name the default formats.
    for task, settings in (user_config.get("specificity_tasks") or {}).items():
        for name in settings["templates"]:
            check_spelling(f"specificity_tasks.{task}.templates", name, "a format", config["formats"])
    return config
