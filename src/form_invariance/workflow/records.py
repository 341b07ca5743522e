"""Find results without Snakemake's records: a folder was copied, or its `.snakemake` was deleted.

Snakemake's records, in `.snakemake`, say with which settings a file was made. Without a record Snakemake compares
time stamps alone, and a changed setting would not make the file again. So each model's folder keeps the
configurations that its files may have, and the token of its last run; `.snakemake` keeps the same token. Files
without a record, or of another run than the records, are accepted only if they have the present configuration.
"""

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.json_yaml import read_json
from form_invariance.tables.files import write_text
from form_invariance.workflow.file_digests import Digests, of_model, tables_and_text
from form_invariance.workflow.source_digest import package_digest

CONFIGURATION = "configuration.json"
_UNKNOWN = None
"""The recorded configuration of files that were made before the folder had a list of configurations."""
_TOKENS = Path(".snakemake/form_invariance.json")
_BEGUN = "files"
_RESULTS = (".parquet", ".safetensors")
_SHOWN = 80
_TRIGGERS = ("code", "input", "mtime", "params")
"""Rerun triggers by which Snakemake finds results of other settings, sources or files."""

Config = Mapping[str, Any]


def _folders(config: Config, files: Digests) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder of each model, with the settings, files and source that its results depend on."""
    plain = json.loads(json.dumps(config))
    results, models, source = plain.pop("results"), plain.pop("models"), package_digest()
    plain |= {f"sha256 of {path}": files[path] for path in tables_and_text(config)}
    for name, model in models.items():
        model_digests = {f"sha256 of {Path(path).name}": files[path] for path in of_model(model)}
        yield Path(results, name), {**plain, **model_digests, "model": model, "source": source}


def _content(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _configurations(folder: Path) -> list[Any]:
    """The configurations that a folder's files may have."""
    configurations = _content(folder / CONFIGURATION).get("configurations")
    if isinstance(configurations, list) and configurations:
        return configurations
    return [_UNKNOWN] if next(_files(folder), None) else []


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _RESULTS and not path.name.startswith("."))


def check(config: Config, files: Digests) -> None:
    """Refuse results of another configuration for which Snakemake has no records."""
    for folder, configuration in _folders(config, files):
        kept = _configurations(folder)
        if all(old == configuration for old in kept):
            continue
        if (lost := _without_record(folder)) is not None:
            raise UserError(
                f"{folder} {_difference(kept, configuration)}, and Snakemake has no record of {lost} as it is, "
                f"so it cannot tell what to make again; {_remedy(kept)} delete {folder}"
            )


def _without_record(folder: Path) -> Path | None:
    """A result without a record, or None; the folder itself, if the records are of another run."""
    from snakemake.io import IOFile  # type: ignore[import-untyped]
    from snakemake.persistence.file import FilePersistence  # type: ignore[import-untyped]

    if _content(folder / CONFIGURATION).get("token") != _content(_TOKENS).get(str(folder)):
        return folder
    with in_one_sentence("Snakemake's records, in .snakemake, cannot be read"):
        records = FilePersistence(nolock=True)  # makes folders there
    return next((path for path in sorted(_files(folder)) if records.metadata(IOFile(str(path))) is None), None)


def _difference(kept: list[Any], configuration: Config) -> str:
    """How a folder's configurations differ from the present one."""
    if len(kept) > 1:
        return "has files of several configurations"
    (old,) = kept
    if not isinstance(old, dict):
        return "has files of an unknown configuration"
    key = next(key for key in [*old, *configuration] if old.get(key) != configuration.get(key))
    values = (
        json.dumps(settings[key], ensure_ascii=False) if key in settings else "no value"
        for settings in (old, configuration)
    )
    was, now = (text if len(text) <= _SHOWN else "another value" for text in values)
    return f"was made with {key}: {was} (now {now})"


def _remedy(kept: list[Any]) -> str:
    if len(kept) > 1 or not isinstance(kept[0], dict):
        return "copy the .snakemake of these results, too, or"
    return "set this back, run 'snakemake --touch --forceall', which makes records, and change it then, or"


def begin(config: Config, files: Digests, touch: bool = False) -> None:
    """Note at the start of a run that results may now have this configuration.

    Args:
        files: digests that the jobs of a cluster read from this note (`begun`).
        touch: the run marks existing results as up to date. Results of another source are accepted, of other
            settings refused.
    """
    folders = list(_folders(config, files))
    for folder, configuration in folders if touch else ():
        kept = _configurations(folder)
        if any(
            not isinstance(old, dict) or {**old, "source": configuration["source"]} != configuration
            for old in kept
        ):
            raise UserError(
                f"--touch would keep results of other settings: {folder} {_difference(kept, configuration)}; "
                "run without it"
            )
    for folder, configuration in folders:
        token = secrets.token_hex(8)
        write_text(_TOKENS, json.dumps({**_content(_TOKENS), str(folder): token, _BEGUN: files}))
        _write(folder, token, [*(old for old in _configurations(folder) if old != configuration), configuration])


def begun() -> Digests:
    """The digests of the user's files with which the last run in this folder began."""
    return dict(_content(_TOKENS).get(_BEGUN, {}))


def end(config: Config, files: Digests) -> None:
    """Note at the end of a whole run that every result has this configuration."""
    for folder, configuration in _folders(config, files):
        _write(folder, _content(_TOKENS).get(str(folder)), [configuration])


def is_whole(settings: Any) -> bool:
    """Whether a run makes all results, by Snakemake's settings of its graph."""
    parts = (
        settings.until or settings.omit_from or settings.batch or settings.allowed_rules or settings.target_jobs
    )
    return {"all", "default"} >= set(settings.targets) and not parts


def check_triggers(workflow: Any) -> None:
    """Refuse rerun triggers that miss a changed setting, source or file.

    Snakemake sets `dag_settings` only after it has read the Snakefile, so this checks them when they are set.
    """

    class Checked(type(workflow)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "dag_settings":
                _check_triggers(sorted(map(str, value.rerun_triggers)))

    workflow.__class__ = Checked


def _check_triggers(triggers: list[str]) -> None:
    if missing := [name for name in _TRIGGERS if name not in triggers]:
        sys.exit(
            f"error: --rerun-triggers {' '.join(triggers)}: without {', '.join(missing)} this run keeps results "
            "of other settings, sources or files; leave --rerun-triggers out, on the command line and in profiles"
        )


def _write(folder: Path, token: object, configurations: list[Any]) -> None:
    write_text(folder / CONFIGURATION, json.dumps({"token": token, "configurations": configurations}, indent=1))
