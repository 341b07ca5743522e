"""The plan of a run: pending jobs of each rule and model, why they run, loads of weights, and estimated time."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate  # type: ignore[import-untyped]

from form_invariance.model.files import is_hub_id
from form_invariance.workflow import job_costs, machine
from form_invariance.workflow.code_changes import SAID
from form_invariance.workflow.job_costs import GROUPED, GROUPED_RULES
from form_invariance.workflow.model_checks import known_folder

EVERY_MODEL = "all models"
NOT_THERE = "not there yet"

_REASONS = {
    "Missing output files": "output is missing",
    "Updated input files": "inputs have changed",
    "Input files updated by another job": "inputs will be remade",
    "Set of input files has changed": "inputs were added or removed",
    "Params have changed": "settings, source or files of the user have changed",
    "Code has changed": "its command has changed",
    "Software environment": "its software has changed",
}
"""Our words for Snakemake's reasons. If a job has several, the first of this order is shown."""

_RULE = re.compile(r"^(?:local)?rule (\w+):$", re.MULTILINE)
_FIELD = re.compile(r"^    (benchmark|output|reason|resources|wildcards): (.*)$", re.MULTILINE)
_CODE = re.compile(rf"^{SAID}(.*): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class PlannedJob:
    """A job in the output of a dry run."""

    rule: str
    wildcards: Mapping[str, str]
    benchmark: str
    reason: str
    on_gpu: bool


def jobs(listing: str, root: Path) -> list[PlannedJob]:
    """The jobs in the output of `snakemake -n` in the folder `root`, without rules that only collect targets."""
    code: dict[str, str] = {}
    for rules, names in _CODE.findall(listing):
        code |= {rule: ", ".join(filter(None, [code.get(rule), names])) for rule in rules.split(", ")}
    parts = _RULE.split(listing)[1:]
    listed_jobs = []
    for rule, text in zip(parts[::2], parts[1::2], strict=True):
        fields = dict(_FIELD.findall(text))
        if "benchmark" not in fields:
            continue
        wildcards = dict(item.split("=", 1) for item in fields.get("wildcards", "").split(", ") if item)
        resources = dict(item.split("=", 1) for item in fields.get("resources", "").split(", ") if "=" in item)
        on_gpu = "gres" in resources or resources.get("gpu", "0") != "0"
        listed_jobs.append(
            PlannedJob(rule, wildcards, fields["benchmark"], _reason(fields, root, code.get(rule, "")), on_gpu)
        )
    return listed_jobs


def _reason(fields: Mapping[str, str], root: Path, code: str) -> str:
    """Why a job runs, in our words. `code` names its changed definitions."""
    reason = fields.get("reason", "")
    if reason and not any((root / path).exists() for path in fields.get("output", "").split(", ")):
        return NOT_THERE
    if code and "Params have changed" in reason:
        return f"its code has changed: {code}"
    return next((ours for theirs, ours in _REASONS.items() if theirs in reason), reason)


def warnings(listing: str) -> list[str]:
    """The workflow's warnings in the output of `snakemake -n`."""
    return [line for line in listing.splitlines() if line.startswith("warning: ")]


def unseen(config: Mapping[str, Any]) -> list[str]:
    """A sentence for each model of the hub that is not on this machine."""
    return [
        f"Model {name}: {model['source']} is not in the hub's cache. Its size is guessed from its name; the first "
        "job, model_files, checks whether the hub has it and whether it can be read."
        for name, model in config["models"].items()
        if is_hub_id(model["source"]) and known_folder(model) is None
    ]


def past_seconds(benchmark: Path) -> float | None:
    """Seconds of a job's last run; None if it never ran."""
    try:
        with benchmark.open(encoding="utf-8") as file:
            return float(next(csv.DictReader(file, delimiter="\t"))["s"])
    except (OSError, StopIteration, KeyError, ValueError):
        return None


def make(
    pending: Sequence[PlannedJob],
    all_jobs: Sequence[PlannedJob],
    root: Path,
    config: Mapping[str, Any],
    rate: float | None = None,
    *,
    gpu_here: bool = True,
) -> pd.DataFrame:
    """A row for each job: `PlannedJob`, model, pending, loads (weights), past and estimated seconds, gpu_gb.

    The estimate of a job is the time of its last run, else the mean time of jobs of the same rule and model, else
    the time of its operations and of reading its weights. The rate of operations is `rate`, else that of the
    model's past jobs, else an assumed one. A job that reads no weights and never ran has an estimate if
    `table_seconds` has one, else NaN.

    Args:
        pending: the jobs that would run.
        all_jobs: all jobs, in the order in which they run.
        root: folder of the run, which contains the benchmark files of past runs.
        rate: floating-point operations per second.
        gpu_here: whether models whose device is `auto` run on a GPU.
    """
    reasons = {job.benchmark: job.reason for job in pending}
    models = [job.wildcards.get("model", EVERY_MODEL) for job in all_jobs]
    jobs = pd.DataFrame(all_jobs).assign(model=models)
    if not gpu_here:
        devices = {name: model.get("device", "auto") for name, model in config["models"].items()}
        jobs["on_gpu"] &= jobs["model"].map(devices) != "auto"
    jobs["loads"] = jobs["rule"].isin(list(job_costs.OPERATIONS))
    last_seconds = pd.Series([past_seconds(root / path) for path in jobs["benchmark"]], dtype=float)
    jobs["past"] = last_seconds.fillna(last_seconds.groupby([jobs["rule"], jobs["model"]]).transform("mean"))
    jobs["seconds"] = jobs["past"].fillna(_estimates(jobs, last_seconds, config, rate))
    jobs["pending"] = jobs["benchmark"].isin(list(reasons))
    jobs["reason"] = jobs["benchmark"].map(reasons)
    memory = {name: job_costs.gpu_gigabytes(model, config) for name, model in config["models"].items()}
    jobs["gpu_gb"] = jobs["model"].map(memory).where(jobs["on_gpu"] & jobs["loads"])
    return jobs


def _estimates(jobs: pd.DataFrame, past: pd.Series, config: Mapping[str, Any], rate: float | None) -> pd.Series:
    """Seconds of jobs that read weights, by their operations, and of long jobs on tables; NaN for other jobs."""
    of_tables = {model: job_costs.table_seconds(config, model) for model in jobs["model"].unique()}
    rules = zip(jobs["model"], jobs["rule"], strict=True)
    estimates = pd.Series([of_tables[model].get(rule, float("nan")) for model, rule in rules], dtype=float)
    for (model, on_gpu), model_jobs in jobs[jobs["loads"]].groupby(["model", "on_gpu"]):
        settings = config["models"][str(model)]
        cells = zip(model_jobs["rule"], model_jobs["wildcards"], strict=True)
        operations = [job_costs.operations(rule, config, str(model), wildcards) for rule, wildcards in cells]
        work = pd.Series(operations, model_jobs.index)
        ran = past[model_jobs.index].dropna().index
        if rate is None and len(ran):
            speed = work[ran].sum() / past[ran].sum()
        else:
            speed = rate or job_costs.rate_of(settings, bool(on_gpu))
        estimates[model_jobs.index] = work / speed + [
            job_costs.reading_seconds(settings, rule, on_gpu=bool(on_gpu)) for rule in model_jobs["rule"]
        ]
    return estimates


def table(jobs: pd.DataFrame) -> str:
    """The plan as text: a row for each rule, a column for each model, GPU memory, then loads and times."""
    models = sorted(jobs["model"].unique(), key=lambda model: model == EVERY_MODEL)
    rows = [["stage", *models, "hours", "why"]]
    for rule, rule_jobs in jobs.groupby("rule", sort=False):
        pending = [rule_jobs.loc[rule_jobs["model"] == model, "pending"] for model in models]
        cells = [f"{is_pending.sum()} of {len(is_pending)}" if len(is_pending) else "" for is_pending in pending]
        seconds = rule_jobs.loc[rule_jobs["pending"], "seconds"]
        hours = f"{seconds.sum() / 3600:.2f}" if seconds.notna().any() else ""
        reasons = rule_jobs["reason"].value_counts()
        why = ", ".join(f"{word} ({count})" for word, count in reasons.items())
        rows.append([str(rule), *cells, hours, why])
    if jobs["gpu_gb"].notna().any():
        memory = [jobs.loc[jobs["model"] == model, "gpu_gb"].max() for model in models]
        rows.append(["GPU memory", *("" if pd.isna(gb) else f"{gb:.0f} GB" for gb in memory), "", ""])
    shown = tabulate(
        rows, "firstrow", "plain", disable_numparse=True, colalign=["left", *["right"] * (len(models) + 1), "left"]
    )
    return "\n".join([shown, "", *_total(jobs)])


def _total(jobs: pd.DataFrame) -> list[str]:
    """Numbers of pending jobs and of their loads, their hours, and where the hours come from."""
    pending = jobs[jobs["pending"]]
    lines = [f"{len(pending)} of {len(jobs)} jobs are pending."]
    loading = pending[pending["loads"]]
    if len(loading):
        each = loading.value_counts(["model", "rule"]).reset_index()
        size = each["rule"].isin(GROUPED_RULES).map({True: GROUPED, False: 1})
        groups = int(np.ceil(each["count"] / size).sum())
        lines.append(f"{len(loading)} jobs read a model's weights; on a cluster they are {groups} groups.")
    timed = pending[pending["seconds"].notna()]
    if len(timed):
        gpu, cpu = (timed.loc[timed["on_gpu"] == kind, "seconds"].sum() / 3600 for kind in (True, False))
        cores, guessed = machine.cores(), int(timed["past"].isna().sum())
        if gpu:
            wall_clock = f"On eight GPUs that is at least {gpu / 8:.2f} hours."
        else:
            wall_clock = f"On the {cores} cores of this machine that is about {cpu / cores:.2f} hours."
        lines.append(f"Time: {gpu:.2f} GPU hours, {cpu:.2f} CPU hours. {wall_clock}")
        lines.append(f"{len(timed) - guessed} jobs have this time from past runs, {guessed} from an estimate.")
    if len(pending) > len(timed):
        lines.append(f"{len(pending) - len(timed)} jobs that read tables alone never ran; most take seconds.")
    return lines


def assumptions(jobs: pd.DataFrame, config: Mapping[str, Any], rate: float | None = None) -> str:
    """A sentence on the estimates' assumptions; empty if there are no estimates."""
    guessed = jobs[jobs["pending"] & jobs["loads"] & jobs["past"].isna()]
    if not len(guessed):
        return ""
    used = {}
    for (model, on_gpu), _ in guessed.groupby(["model", "on_gpu"]):
        settings = config["models"][model]
        name = f"{settings.get('dtype', 'float32')} on a {'GPU' if on_gpu else 'CPU core'}"
        used[name] = (rate or job_costs.rate_of(settings, bool(on_gpu))) / 1e12
    rates = ", ".join(f"{value:g} TFLOP/s in {name}" for name, value in used.items())
    return (
        f"Estimates assume {rates} (--tflops; a model's past jobs replace it), weights read at "
        f"{job_costs.READING / 1e9:g} GB/s, and prompts of as many tokens as a template has words and signs."
    )
