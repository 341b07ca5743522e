"""The plan of a run: pending jobs of each rule and model, the reasons, and the time that past runs suggest."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

EVERY_MODEL = "all models"

_REASONS = {
    "Missing output files": "output is missing",
    "Updated input files": "inputs have changed",
    "Input files updated by another job": "inputs will be remade",
    "Set of input files has changed": "inputs were added or removed",
    "Params have changed": "settings or source have changed",
    "Code has changed": "its command has changed",
    "Software environment": "its software has changed",
}
"""Our words for Snakemake's reasons, in order of precedence if a job has several."""

_RULE = re.compile(r"^(?:local)?rule (\w+):$", re.MULTILINE)
_FIELD = re.compile(r"^    (benchmark|reason|resources|wildcards): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """A job in the output of a dry run."""

    rule: str
    model: str
    benchmark: str
    reason: str
    on_gpu: bool


def jobs(listing: str) -> list[Job]:
    """The jobs in the output of `snakemake -n`, without rules that only collect targets."""
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
    """Seconds of a job's last run; None if it never ran."""
    try:
        with benchmark.open(encoding="utf-8") as file:
            return float(next(csv.DictReader(file, delimiter="\t"))["s"])
    except (OSError, StopIteration, KeyError, ValueError):
        return None


def make(pending: Sequence[Job], every: Sequence[Job], root: Path) -> pd.DataFrame:
    """One row per job: the columns of `Job`, whether it is pending, and its estimated seconds.

    The estimate is the job's last run, else the mean over the same rule and model, else NaN.

    Args:
        pending: the jobs that would run, with the reasons.
        every: all jobs, in the order in which they run.
        root: folder of the run, which contains the benchmark files of past runs.
    """
    reasons = {job.benchmark: job.reason for job in pending}
    jobs = pd.DataFrame(every)
    past = pd.Series([past_seconds(root / path) for path in jobs["benchmark"]], dtype=float)
    jobs["seconds"] = past.fillna(past.groupby([jobs["rule"], jobs["model"]]).transform("mean"))
    jobs["pending"] = jobs["benchmark"].isin(list(reasons))
    jobs["reason"] = jobs["benchmark"].map(reasons)
    return jobs


def table(jobs: pd.DataFrame) -> str:
    """The plan as text: a row for each rule, a column for each model."""
    models = sorted(jobs["model"].unique(), key=lambda model: model == EVERY_MODEL)
    rows = [["stage", *models, "why"]]
    for rule, own in jobs.groupby("rule", sort=False):
        pending = [own.loc[own["model"] == model, "pending"] for model in models]
        cells = [f"{one.sum()} of {len(one)}" if len(one) else "" for one in pending]
        reasons = own["reason"].value_counts()
        rows.append([str(rule), *cells, ", ".join(f"{word} ({count})" for word, count in reasons.items())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for first, *cells, why in rows:
        middle = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:{widths[0]}}", *middle, why]).rstrip())
    return "\n".join([*lines, "", _total(jobs)])


def _total(jobs: pd.DataFrame) -> str:
    pending = jobs[jobs["pending"]]
    unknown = int(pending["seconds"].isna().sum())
    line = f"{len(pending)} of {len(jobs)} jobs are pending."
    if len(pending) > unknown:
        gpu, cpu = (pending.loc[pending["on_gpu"] == kind, "seconds"].sum() / 3600 for kind in (True, False))
        line += f" Time by past runs: {gpu:.2f} GPU hours, {cpu:.2f} CPU hours"
        line += f", plus {unknown} jobs that never ran." if unknown else "."
    elif unknown:
        line += " None of them ever ran, so their time is unknown."
    return line
