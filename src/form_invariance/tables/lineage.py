"""The lineage of a file: what it was made from. Files of different runs are not mixed.

A file names its ancestors, each with a digest, and the settings that no file contains. A command compares the
lineages of all its input files and its own settings. If two of them give a name different values, they are not of
one run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.tables.columns import CELL

SETTINGS = (
    *("seed", "train", "eval", "corrupt_seeds", "candidates", "ranking", "membership", "first_late_layer"),
    *("center_logits", "max_operand", "threshold", "corrupt", "random_seeds", "matched_seeds"),
)
"""Settings with one value in a run."""
SETTINGS_OF_A_KIND = ("dtype", "pairs", "bootstrap")
"""Settings with one value for all files of one kind."""
WEIGHTS = "weights"
"""The digest of a model's files (`model.digests.identity`)."""
KEYS = (*CELL, "task", "donor", "target")
SIZE = " at k = "
"""Begins the name of a part: the circuits of one size in a table with several sizes."""
THIS_COMMAND = "this command"

Lineage = dict[str, dict[str, Any]]
"""By model, then by name: the digest of an ancestor (`name_of`), or the value of a setting."""
Stamp = Mapping[str, Any]
"""The provenance of a file, with its lineage and its checksum."""


class OfAnyCell:
    """Marks an option whose files may be of other formats and operators than those of other options."""


class OfAnyModel:
    """Marks an option whose files may be of several models."""


@dataclass(frozen=True)
class Option:
    """The files of an option of a command, and its mark."""

    files: Sequence[Path]
    mark: type | None = None


@dataclass
class Job:
    """A running command: the lineages of its inputs, with the file that each value is from, and its settings."""

    values: dict[str, dict[str, tuple[Any, str]]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def add_file(self, path: str, stamp: Stamp) -> None:
        """Merge a file's lineage, and the file itself."""
        if "lineage" not in stamp:
            raise UserError(f"{path} was made by an older version; delete it and run snakemake again")
        keys, lineage = stamp["keys"], stamp["lineage"]
        name = name_of(stamp["table"], keys)
        digests = {f"{name}{part}": digest for part, digest in stamp["content"].items()} if keys else {}
        for model, values in [*lineage.items(), (keys.get("model", ""), digests)]:
            merged = self.values.setdefault(model, {})
            for name, value in values.items():
                earlier_value, source = merged.setdefault(name, (value, path))
                if earlier_value != value:
                    raise UserError(_difference(name, earlier_value, source, value, path))

    def add_setting(self, name: str, value: Any) -> None:
        """Merge a setting of the command."""
        self.settings[name] = value
        for values in self.values.values():
            input_value, source = values.get(name, (value, ""))
            if input_value != value:
                raise UserError(_difference(name, input_value, source, value, THIS_COMMAND))

    def check_sizes(self, option: str, sizes: Sequence[int]) -> None:
        """Check that there is a circuit of each size."""
        circuits: dict[str, dict[int, str]] = {}
        for values in self.values.values():
            for name, (_, source) in values.items():
                circuit, _, size = name.partition(SIZE)
                if size:
                    circuits.setdefault(circuit, {})[int(size)] = source
        for circuit, sources in circuits.items():
            if missing := [size for size in sizes if size not in sources]:
                path, listed = next(iter(sources.values())), ", ".join(map(str, sorted(sources)))
                name = option.replace("_", "-")
                raise UserError(
                    f"--{name}: {path} has no {circuit}{SIZE}{missing[0]}; it has those of k = {listed}"
                )


_job: ContextVar[Job | None] = ContextVar("job", default=None)


def _difference(name: str, value: Any, source: str, other_value: Any, other: str) -> str:
    """The sentence that refuses two values of one name."""
    if name == WEIGHTS:
        what = f"{source} was made with another model than {other}"
        what += " runs" if other == THIS_COMMAND else ""
    elif name.startswith(("template of ", "expression of ")):
        what = f"{source} has, or was made from, the {name} {value!r}, but {other} has {other_value!r}"
    elif " of " in name:
        what = f"{source} and {other} are not of one run: each has, or was made from, another {name}"
    else:
        setting = name.rpartition(".")[2]
        verb = "has" if other == THIS_COMMAND else "was made with"
        what = f"{source} was made with {setting} {value}, but {other} {verb} {setting} {other_value}"
    return f"{what}; delete what is not of this run and run snakemake again"


def name_of(kind: str, keys: Mapping[str, str]) -> str:
    """The name of a file in lineages."""
    return f"{kind} of {'/'.join(keys[name] for name in sorted(keys, key=KEYS.index))}"


def of_output(kind: str, provenance: Mapping[str, Any], keys: Mapping[str, str]) -> Lineage:
    """The lineage of a file that the running command writes."""
    job = _job.get() or Job()
    lineage = {model: {name: value for name, (value, _) in values.items()} for model, values in job.values.items()}
    settings = {name: provenance[name] for name in SETTINGS if provenance.get(name) is not None}
    settings |= {
        f"{kind}.{name}": provenance[name] for name in SETTINGS_OF_A_KIND if provenance.get(name) is not None
    }
    # A cell's prompts follow from its template and expression, which options of a later command may state again.
    if "template" in provenance and {"format", "operator"} <= keys.keys():
        settings[f"template of {keys['format']}/{keys['operator']}"] = provenance["template"]
        settings[f"expression of {keys['operator']}"] = provenance.get("expression")
    model = keys.get("model", "")
    for name, value in settings.items():
        input_value, source = job.values.get(model, {}).get(name, (value, ""))
        if input_value != value:
            raise UserError(_difference(name, input_value, source, value, THIS_COMMAND))
    return lineage | {model: lineage.get(model, {}) | settings | job.settings}


def is_running() -> bool:
    """Whether a command is running whose inputs are compared."""
    return _job.get() is not None


def note(name: str, value: Any) -> None:
    """Record a setting that the running command has found.

    Raises:
        UserError: an input was made with another value.
    """
    if job := _job.get():
        job.add_setting(name, value)


@contextmanager
def running(job: Job) -> Iterator[None]:
    """Give the files that are written meanwhile the lineage of a job."""
    token = _job.set(job)
    try:
        yield
    finally:
        _job.reset(token)
