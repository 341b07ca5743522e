"""Check a configuration against its models: their folders, sizes and tokenizers. No weights are read."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.experiment.groups import VARIANT
from form_invariance.model import files as model_files
from form_invariance.model import hub
from form_invariance.model.files import check_hub_id, is_hub_id
from form_invariance.model.folders import tokenizer_files, weight_files
from form_invariance.model.sizes import Sizes, read_sizes
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.configured import check_other_task, task_of
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer, check_numbers
from form_invariance.problems.tasks import check_task, is_whole
from form_invariance.workflow.rule_options import dose_sizes

Variants = Mapping[tuple[str, str], str]
"""Texts of the measured variants, by (FORMAT~N, operator)."""


def local_folder(source: str) -> Path | None:
    """The folder of a model on this machine, or its GGUF file; None for a hub id.

    Raises:
        UserError: the source names a folder that does not exist.
    """
    if is_hub_id(source):
        return None
    return model_files.resolve(source)


def known_folder(model: Mapping[str, Any]) -> Path | None:
    """The folder of a model whose config.json is on this machine: a local folder or a snapshot in the hub's cache.

    None for a GGUF file, whose folder a job writes. This function does not use the network: other files of a
    snapshot may be missing, and a job downloads them.

    Raises:
        UserError: the source names a folder that does not exist.
    """
    folder = local_folder(model["source"])
    if folder is None:
        return hub.cached(model["source"], model.get("revision"))
    return None if folder.is_file() else folder


@contextmanager
def under(key: str) -> Iterator[None]:
    """Prefix a UserError with the key of the configuration that is wrong."""
    try:
        yield
    except UserError as error:
        raise UserError(f"config key {key}: {error}") from None


def check_sources(config: Mapping[str, Any]) -> None:
    """Check that every source exists on this machine, or has the form of a hub id and is not a misspelt folder."""
    for name, model in config["models"].items():
        with under(f"models.{name}.source"):
            if not is_hub_id(model["source"]):
                model_files.resolve(model["source"], model.get("revision"))
            else:
                check_hub_id(model["source"], model.get("revision"))
                hub.check_offline(model["source"], model.get("revision"))


def _check_folder(
    name: str, model: Mapping[str, Any], folder: Path, config: Mapping[str, Any]
) -> PromptTokenizer | None:
    """Check a model's folder and the keys that its sizes limit. Returns its tokenizer if it is on this machine."""
    local = local_folder(model["source"]) is not None
    with under(f"models.{name}.source"):
        shape = read_sizes(folder)
        if local:
            weight_files(folder)
        # The package's own models need no check of their class, and importing torch is slow.
        if folder.parent != model_files.PACKAGED:
            from form_invariance.model.loading import check_class

            check_class(folder)
    _check_shape(name, shape, config)
    if not local and not (folder / "tokenizer.json").is_file():
        return None
    with under(f"models.{name}.source"):
        return load_tokenizer(folder)


def _check_shape(name: str, shape: Sizes, config: Mapping[str, Any]) -> None:
    """Check the keys that a model's width and depth limit."""
    for key, sizes in (("k", config["k"]), ("best_k", dose_sizes(config))):
        if max(sizes) > shape.d_mlp:
            raise UserError(
                f"config key {key}: {max(sizes)} is larger than the {shape.d_mlp} neurons that a layer of model "
                f"{name} has; remove it or choose sizes up to {shape.d_mlp}"
            )
    if isinstance(config["late_from"], int) and config["late_from"] >= shape.n_layers:
        raise UserError(
            f"config key late_from: {config['late_from']} must be below {shape.n_layers}, the layers of {name}"
        )


def _check_prompts(name: str, tokenizer: PromptTokenizer, config: Mapping[str, Any], variants: Variants) -> None:
    """Check the numbers, the templates and the measured variants with a model's tokenizer."""
    limits = OperandRange(**config["operands"])
    tasks = {operator: task_of(settings, config["operands"]) for operator, settings in config["operators"].items()}
    if any(map(is_whole, tasks.values())):
        with under(f"operands with the tokenizer of {name}"):
            check_numbers(tokenizer, limits)
    for format_name, format_settings in config["formats"].items():
        for operator, task in tasks.items():
            where = f"config key formats.{format_name}.templates.{operator} with the tokenizer of {name}"
            check_task(task, tokenizer, format_settings["templates"][operator], where)
    for (variant, operator), text in variants.items():
        format_name, _, number = variant.partition(VARIANT)
        key = f"config key formats.{format_name}.variants.{operator}[{int(number) - 1}]"
        check_task(tasks[operator], tokenizer, text, f"{key} with the tokenizer of {name}")
    for task, task_settings in config.get("specificity_tasks", {}).items():
        for format_name in sorted(set(task_settings["templates"]) & set(config["formats"])):
            where = f"config key specificity_tasks.{task}.templates.{format_name} with the tokenizer of {name}"
            try:
                check_other_task(
                    task_of(task_settings, config["operands"]),
                    tokenizer,
                    task_settings["templates"][format_name],
                    where,
                )
            except UserError as error:
                said = str(error).removeprefix(f"{where}: ")
                raise UserError(f"{where}: {said}; or leave it out (specificity_tasks: {{}} has none)") from error


def check_models(config: Mapping[str, Any], variants: Variants) -> None:
    """Check every model whose files are on this machine. Prompts are checked once for each tokenizer."""
    checked = set()
    for name, model in config["models"].items():
        folder = known_folder(model)
        if folder is None:
            continue
        tokenizer = _check_folder(name, model, folder, config)
        if tokenizer is None:
            continue
        paths = tokenizer_files(folder)
        key = tuple(hashlib.sha256(path.read_bytes()).digest() for path in paths)
        if key not in checked:
            _check_prompts(name, tokenizer, config, variants)
            checked.add(key)


def check_enough(problems: int, config: Mapping[str, Any]) -> None:
    """Check that an operator has a problem for each prompt that the stages need."""
    census_pairs, train, evaluation = (config[key] for key in ("census_pairs", "train_prompts", "eval_prompts"))
    most, needed = min(problems, census_pairs), train + evaluation
    if most < needed:
        cures = ["raise census_pairs" if problems >= needed else "give the operator more problems"]
        if most >= 8:
            cures.append(f"lower train_prompts and eval_prompts, for instance to {most // 4} each")
        raise UserError(
            f"a census asks {most} problems (the operator has {problems}, census_pairs is {census_pairs}), but "
            f"train_prompts and eval_prompts need {needed} right answers; {', or '.join(cures)}"
        )
