"""Checks of a configuration before any job starts: every mistake that can be known then, in one sentence."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.json_yaml import extent_error, read_yaml
from form_invariance.problems.operands import OperandRange, operand_pool
from form_invariance.problems.prompts import check_fields
from form_invariance.workflow.config_schema import check_schema, hint
from form_invariance.workflow.model_checks import check_models, check_sources, known_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_REVISION = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_TEMPLATE_ENGINE = "__use_yte__"
_RESERVED = {
    "models": ("benchmarks", "figures", "logs", "tables", "trained"),
    "operators": ("all",),
    "formats": ("shared", "transfer"),
}


def load(path: Path) -> dict[str, Any]:
    """Read a configuration file.

    Raises:
        UserError: it is missing, not YAML, or would be run.
    """
    try:
        content = read_yaml(path)
    except FileNotFoundError:
        raise UserError(f"configuration {path} does not exist") from None
    if _TEMPLATE_ENGINE in content:
        raise UserError(
            f"{path} has the key {_TEMPLATE_ENGINE}, with which Snakemake runs Python from it; take it out"
        )
    return content


def _check_text(names: Iterable[object], key: str) -> None:
    """YAML takes some words and all numbers for no text."""
    for name in names:
        if not isinstance(name, str):
            raise UserError(
                f"config key {key}: YAML reads a name there as {name!r}, as it does with no, yes and numbers; put "
                "the name in quotes"
            )


def _check_names(config: Mapping[str, Any]) -> None:
    """Names become folders: of allowed characters, and none that the results tree has already."""
    for section in ("models", "operators", "formats"):
        _check_text(config[section], section)
        for name in config[section]:
            if not _NAME.fullmatch(name):
                raise UserError(
                    f"config key {section}: the name {name!r} must consist of the letters a to z and A to Z, "
                    "digits, '_', '-' and '.', and begin with a letter or digit, since it becomes a folder"
                )
    for section, reserved in _RESERVED.items():
        for name in reserved:
            if name in config[section]:
                raise UserError(
                    f"config key {section}: {name!r} is a name that the results use already; choose another"
                )


def _check_revisions(config: Mapping[str, Any]) -> None:
    """A revision becomes a part of paths in the hub's cache."""
    for name, model in config["models"].items():
        if not _REVISION.fullmatch(model.get("revision", "main")):
            raise UserError(
                f"config key models.{name}.revision: {model['revision']!r} is no branch, tag or commit; it must "
                "consist of the letters a to z and A to Z, digits, '_', '-', '.', '+' and '/', without '..'"
            )


def _check_templates(config: Mapping[str, Any]) -> None:
    """Every operator has a template in every format, with both fields. Templates of other operators wait."""
    for name, one in config["formats"].items():
        templates, variants = one["templates"], one.get("variants", {})
        _check_text(templates, f"formats.{name}.templates")
        _check_text(variants, f"formats.{name}.variants")
        for operator in config["operators"]:
            if operator not in templates:
                near = difflib.get_close_matches(operator, list(templates), n=1, cutoff=0.8)
                advice = f"is {near[0]!r} a misspelling of it?" if near else "add one"
                raise UserError(
                    f"config key formats.{name}.templates: operator {operator!r} has no template; {advice}"
                )
        for operator in variants:
            if operator not in templates:
                advice = hint(operator, templates, f"it has templates for {', '.join(templates)}")
                raise UserError(
                    f"config key formats.{name}.variants: {operator!r} is no operator of this format; {advice}"
                )
        for operator, template in templates.items():
            check_fields(template, f"config key formats.{name}.templates.{operator}")
        for operator, several in variants.items():
            for number, template in enumerate(several):
                check_fields(template, f"config key formats.{name}.variants.{operator}[{number}]")


def _check_operands(config: Mapping[str, Any]) -> None:
    for kind in ("operand", "answer"):
        low, high = (config["operands"][f"{kind}_{end}"] for end in ("min", "max"))
        if low > high:
            raise UserError(
                f"config key operands: no number is in {low}..{high}; {kind}_max must be at least {kind}_min"
            )


def _check_sizes(config: Mapping[str, Any]) -> None:
    largest = max(config["k"])
    if largest > config["candidates"]:
        raise UserError(
            f"config key k: {largest} is larger than candidates ({config['candidates']}), and only candidates are "
            "ranked; lower k or raise candidates"
        )


def _check_heuristics(config: Mapping[str, Any]) -> None:
    if config["heuristic_k"] not in config["k"]:
        raise UserError(
            f"config key heuristic_k: {config['heuristic_k']} is not in k ({sorted(config['k'])}); add it "
            "there, or choose one of them"
        )


def _check_dose(config: Mapping[str, Any]) -> None:
    given = config.get("dose", [])
    if given and not {0, 1} <= set(given):
        raise UserError(
            f"config key dose: {given} must hold 0 and 1, nothing and all, with which the others are compared"
        )


def measured_variants(config: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, list[str]]]:
    """The variants that each measured cell takes, by (format, operator): its own operator's first.

    Where corrupt partners come from all operators, so do variants.
    """
    wanted = [operator for operator in config["operators"] if operator in config.get("variant_operators", [])]
    across = config["corrupt"] == "across_operators"
    found = {}
    for name, one in config["formats"].items():
        variants = one.get("variants", {})
        for operator in wanted:
            if variants.get(operator):
                others = [other for other in config["operators"] if across and other != operator]
                found[name, operator] = {taken: variants.get(taken, []) for taken in (operator, *others)}
    return found


def _check_variants(config: Mapping[str, Any]) -> None:
    """Names in variant_operators are no misspellings, and partners of other operators have variants too."""
    for operator in config.get("variant_operators", []):
        near = difflib.get_close_matches(operator, list(config["operators"]), n=1, cutoff=0.8)
        if near and operator not in config["operators"]:
            raise UserError(
                f"config key variant_operators: {operator!r} is no operator; did you mean {near[0]!r}?"
            )
    for (name, operator), taken in measured_variants(config).items():
        for other, texts in taken.items():
            if len(texts) < len(taken[operator]):
                raise UserError(
                    f"config key formats.{name}.variants: {operator} has {len(taken[operator])} variants and "
                    f"{other} has {len(texts)}, but with corrupt: across_operators every operator needs as many"
                )


def _digest(config: Mapping[str, Any]) -> str:
    """Digest of all that the slow checks look at."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    for model in config["models"].values():
        folder = known_folder(model["source"], model.get("revision"))
        for path in sorted(filter(Path.exists, folder.iterdir())) if folder else []:
            digest.update(f"{path}{path.stat().st_size}{path.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def check(config: Mapping[str, Any], schema: Mapping[str, Any], remembered: Path | None = None) -> None:
    """Check a whole configuration.

    Args:
        schema: JSON schema of the configuration.
        remembered: file that remembers the last configuration found good, so that the slow checks
            (tokenizers, operand pools) are not repeated for it.

    Raises:
        UserError: at the first mistake.
    """
    problem = extent_error(config)
    if problem:
        raise UserError(f"config: {problem}")
    check_schema(config, schema)
    _check_names(config)
    _check_revisions(config)
    _check_templates(config)
    _check_operands(config)
    _check_sizes(config)
    _check_dose(config)
    _check_variants(config)
    check_sources(config)
    digest = _digest(config)
    if remembered and remembered.exists() and remembered.read_bytes() == digest.encode():
        return
    check_models(config, measured_variants(config))
    # Behind the tokenizers, which know no millions: the pool is of all pairs.
    for expression in config["operators"].values():
        operand_pool(expression, OperandRange(**config["operands"]))
    _check_heuristics(config)
    if remembered:
        remembered.parent.mkdir(parents=True, exist_ok=True)
        remembered.write_text(digest)
