"""The user's configuration: files, and the KEY=VALUE items of `--config`, read as strictly as files."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from form_invariance.json_yaml import yaml_value
from form_invariance.workflow.config_check import load
from form_invariance.workflow.rule_options import expression_of


def merged(files: Iterable[Path | str], items: Iterable[str]) -> dict[str, Any]:
    """Configuration files and the items of `--config`, merged as Snakemake does.

    Raises:
        UserError: a file, or the value of an item, cannot be read.
    """
    from snakemake.utils import update_config  # type: ignore[import-untyped]

    changes: dict[str, Any] = {}
    for config in [*(load(Path(path)) for path in files), *map(_read, items)]:
        update_config(changes, config)
    return changes


def with_items(config: dict[str, Any], files: Iterable[Path | str], items: Iterable[str]) -> dict[str, Any]:
    """The configuration that Snakemake has read, but with the items as `merged` reads them.

    Snakemake reads items by rules of its own.

    Raises:
        UserError: as `merged`.
    """
    strict_config = merged(files, items)
    return {**config, **{name: strict_config[name] for item in items for name in _read(item)}}


def left_out(config: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """One warning each for `operators` and `formats`, if the configuration leaves out names of the default.

    There is none if both keys were changed and no new operator is an expression: that is another experiment, not
    an addition to the default.
    """
    changed = [key for key in ("operators", "formats") if config[key] != default[key]]
    expressions = {name for name, operator in config["operators"].items() if expression_of(operator)}
    if len(changed) > 1 and expressions <= set(default["operators"]):
        return
    for key in changed:
        if lost := [name for name in default[key] if name not in config[key]]:
            yield (
                f"config key {key}: this run leaves out {', '.join(lost)} of config/config.yaml, because a key "
                "replaces the whole default; to keep them, copy them into your file"
            )


def _read(item: str) -> dict[str, Any]:
    key, _, value = item.partition("=")
    return {key: yaml_value(value, f"--config {key}")}
