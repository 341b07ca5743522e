"""What a run would do: pending jobs of each stage and model, why, and how long by past runs."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EVERY_MODEL = "all models"

_REASONS = {
    "Missing output files": "not there yet",
    "Updated input files": "inputs have changed",
    "Input files updated by another job": "inputs will be made again",
    "Set of input files has changed": "inputs were added or removed",
    "Params have changed": "settings or source have changed",
    "Code has changed": "its command has changed",
    "Software environment": "its software has changed",
}
"""Snakemake's words in ours; of several, the first in this order is the job's own reason."""

_RULE = re.compile(r"^(?:local)?rule (\w+):$", re.MULTILINE)
_FIELD = re.compile(r"^    (benchmark|reason|resources|wildcards): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """A job that a dry run lists."""

    rule: str
    model: str
    benchmark: str
    reason: str
    on_gpu: bool


@dataclass
class Stage:
    """The jobs of one rule for one model.

    Attributes:
        seconds: of the pending jobs, by past runs.
        unknown: pending jobs of which no past run is known.
    """

    on_gpu: bool
    total: int = 0
    pending: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    unknown: int = 0


def jobs(listing: str) -> list[Job]:
    """The jobs that `snakemake -n` prints, without those that only gather others."""
    parts = _RULE.split(listing)[1:]
    found = []
    for rule, text in zip(parts[::2], parts[1::2], strict=True):
        fields = dict(_FIELD.findall(text))
        if "benchmark" not in fields:
            continue
        wildcards = dict(item.split("=", 1) for item in fields.get("wildcards", "").split(", ") if item)
        reason = fields.get("reason", "")
        ours = next((ours for theirs, ours in _REASONS.items() if theirs in reason), reason)
        on_gpu = re.search(r"\b(gpu=[1-9]|gres=)", fields.get("resources", "")) is not None
        found.append(Job(rule, wildcards.get("model", EVERY_MODEL), fields["benchmark"], ours, on_gpu))
    return found


def past_seconds(benchmark: Path) -> float | None:
    """How long a job took the last time; None if it never ran."""
    try:
        with benchmark.open(encoding="utf-8") as file:
            return float(next(csv.DictReader(file, delimiter="\t"))["s"])
    except (OSError, StopIteration, KeyError, ValueError):
        return None


def make(pending: Sequence[Job], every: Sequence[Job], root: Path) -> dict[tuple[str, str], Stage]:
    """The stages by (rule, model), in the order in which they run.

    Args:
        pending: jobs that would run.
        every: all jobs, in any order.
        root: folder of the run, where past runs left their benchmark files.
    """
    stages: dict[tuple[str, str], Stage] = {}
    own: dict[str, float] = {}
    past: dict[tuple[str, str], list[float]] = {}
    for job in every:
        key = job.rule, job.model
        stages.setdefault(key, Stage(job.on_gpu)).total += 1
        seconds = past_seconds(root / job.benchmark)
        if seconds is not None:
            own[job.benchmark] = seconds
            past.setdefault(key, []).append(seconds)
    for job in pending:
        key = job.rule, job.model
        stage, known = stages[key], past.get(key)
        guess = own.get(job.benchmark, sum(known) / len(known) if known else None)
        stage.pending += 1
        stage.reasons[job.reason] += 1
        stage.seconds += guess or 0.0
        stage.unknown += guess is None
    return stages


def table(stages: Mapping[tuple[str, str], Stage]) -> str:
    """The plan as text: a row for each rule, a column for each model."""
    models = dict.fromkeys(model for _, model in stages)
    columns = sorted(models, key=lambda model: model == EVERY_MODEL)
    rules = list(dict.fromkeys(rule for rule, _ in stages))
    rows = [["stage", *columns, "why"]]
    for rule in rules:
        own = [stages.get((rule, model)) for model in columns]
        cells = [f"{one.pending} of {one.total}" if one else "" for one in own]
        reasons = sum((one.reasons for one in own if one), Counter())
        rows.append([rule, *cells, ", ".join(f"{word} ({count})" for word, count in reasons.most_common())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for first, *cells, why in rows:
        middle = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:{widths[0]}}", *middle, why]).rstrip())
    return "\n".join([*lines, "", _total(stages.values())])


def _total(stages: Collection[Stage]) -> str:
    pending, total, unknown = (sum(getattr(s, name) for s in stages) for name in ("pending", "total", "unknown"))
    line = f"{pending} of {total} jobs are pending."
    if pending > unknown:
        gpu, cpu = (sum(one.seconds for one in stages if one.on_gpu is kind) / 3600 for kind in (True, False))
        line += f" By past runs: {gpu:.2f} GPU hours, {cpu:.2f} CPU hours"
        line += f", and {unknown} jobs that never ran." if unknown else "."
    elif unknown:
        line += " None of them ever ran, so there is no estimate of the time."
    return line
