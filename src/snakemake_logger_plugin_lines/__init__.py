"""`snakemake --logger lines`: a line for each job that has ended, with the time left; errors in full.

Snakemake finds this package by its name. Its log file (.snakemake/log) has the full text as always.
"""

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import mean
from typing import Any

from snakemake.logging import DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

ERRORS = (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR, LogEvent.ERROR)
NOTHING = "Nothing to be done"
FAILED = "Exiting because a job execution failed"


class LogHandler(LogHandlerBase):
    """Writes the lines to standard error."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Nothing has started yet."""
        self._others = DefaultFormatter(self.common_settings.quiet, self.common_settings.show_failed_logs)
        self._start: float | None = None
        self._counts: dict[str, int] = {}
        self._seconds: dict[str, list[float]] = {}
        self._jobs: dict[int, tuple[str, float]] = {}
        self._reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print the records of ended jobs, errors and warnings; ignore all others."""
        event, said = getattr(record, "event", None), record.__dict__
        if event == LogEvent.RUN_INFO:
            self._counts = {rule: count for rule, count in said["stats"].items() if rule != "total"}
        elif event == LogEvent.JOB_INFO:
            name = " ".join([said["rule_name"], *map(str, (said["wildcards"] or {}).values())])
            began = time.monotonic()
            self._start = began if self._start is None else self._start
            self._jobs[said["jobid"]] = name, began
        elif event == LogEvent.JOB_FINISHED:
            self._print(self._line(said["job_id"]))
        elif event in ERRORS or record.levelno >= logging.WARNING or record.getMessage().startswith(NOTHING):
            self._print(self._others.format(record))
            if event == LogEvent.JOB_ERROR:
                self._reasons += [f"{said['rule_name']}: {line}" for line in _errors(said.get("log") or [])]
            elif record.getMessage().startswith(FAILED):
                # Repeated here, because other jobs may have printed many lines since the failure.
                for reason in self._reasons:
                    self._print(reason)

    def _line(self, job: int) -> str:
        """The line of a job that has ended: how many of how many, its name and seconds, and the time left."""
        now = time.monotonic()
        name, began = self._jobs.pop(job, (f"job {job}", now))
        self._seconds.setdefault(name.split()[0], []).append(now - began)
        seconds = time_left(self._counts, self._seconds, now - (self._start or now))
        done, total = sum(map(len, self._seconds.values())), str(sum(self._counts.values()))
        left = f"about {timedelta(seconds=round(seconds))} left"
        return f"{done:>{len(total)}} of {total}: {name} ({now - began:.0f} s), {left}"

    @staticmethod
    def _print(line: Any) -> None:
        print(line, file=sys.stderr, flush=True)


def time_left(counts: Mapping[str, int], seconds: Mapping[str, Sequence[float]], elapsed: float) -> float:
    """Seconds until all jobs have ended, if each takes the mean time of its rule, or of all rules if its has none.

    Args:
        counts: jobs of each rule.
        seconds: times of each rule's jobs that have ended.
        elapsed: seconds since the first job began. As many jobs will run at once as in this time.
    """
    ended = [second for of_rule in seconds.values() for second in of_rule]
    each = {rule: seconds.get(rule, ()) for rule in counts}
    rest = sum((counts[rule] - len(of_rule)) * mean(of_rule or ended) for rule, of_rule in each.items())
    return rest * elapsed / max(sum(ended), 1e-9)


def _errors(logs: Sequence[str]) -> Iterator[str]:
    """The error messages of a job's commands, from its log files."""
    for path in map(Path, logs):
        if path.exists():
            yield from (
                line for line in path.read_text(errors="replace").splitlines() if line.startswith("error: ")
            )
