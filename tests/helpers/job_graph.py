"""The graph of jobs that Snakemake plans: who reads whose files."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stub_checkout import snakemake

KEYS = ("model", "format", "operator", "circuit", "figure")


@dataclass(frozen=True)
class Job:
    """A job, and the command that it runs."""

    rule: str
    wildcards: tuple[tuple[str, str], ...]
    inputs: frozenset[str]
    outputs: frozenset[str]
    command: tuple[str, ...]

    @property
    def key(self):
        """What tells the job apart: rule and wildcards."""
        return self.rule, *(value for _, value in self.wildcards)


def planned(checkout: Path, *words: str) -> list[Job]:
    """The jobs that a dry run lists, without the target rule."""
    status, out = snakemake(checkout, "-n", "-p", *words)
    assert status == 0, out
    parts = re.split(r"^(?:local)?rule (\w+):$", out, flags=re.MULTILINE)[1:]
    return [_job(rule, text) for rule, text in zip(parts[::2], parts[1::2], strict=True) if rule != "default"]


def _job(rule: str, text: str) -> Job:
    fields = dict(re.findall(r"^    (input|output|wildcards): (.*)$", text, re.MULTILINE))
    pairs = [item.split("=") for item in fields.get("wildcards", "").split(", ") if item]
    command = re.search(r"python -m form_invariance (.*?)$", text, re.MULTILINE)
    return Job(
        rule,
        tuple((key, value) for key in KEYS for name, value in pairs if name == key),
        frozenset(fields.get("input", "").split(", ")),
        frozenset(fields.get("output", "").split(", ")),
        tuple(command[1].split()) if command else (),
    )


def whole(checkout: Path, *words: str) -> list[Job]:
    """Every job of the configuration, whether it is pending or not."""
    return planned(checkout, "--forceall", *words)


def select(jobs: Iterable[Job], rules: str, **wanted: str) -> set[Job]:
    """The jobs of some rules, of one value of some wildcards (jobs without these wildcards are left out)."""
    names = rules.split()
    assert set(names) <= {job.rule for job in jobs}, set(names) - {job.rule for job in jobs}
    return {job for job in jobs if job.rule in names and wanted.items() <= set(job.wildcards)}


def following(jobs: list[Job], first: set[Job]) -> set[tuple[str, ...]]:
    """Keys of some jobs and of all that read what they make, directly or not."""
    found, waiting = set(first), list(first)
    while waiting:
        job = waiting.pop()
        more = {other for other in jobs if other not in found and other.inputs & job.outputs}
        found |= more
        waiting += more
    return {job.key for job in found}
