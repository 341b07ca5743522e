"""`snakemake --logger lines`: a line for each job that has ended, with the time left; errors in full.

Snakemake finds this package by its name. Its log file (.snakemake/log) has the full text as always.
"""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
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
        self._start = time.monotonic()
        self._done = self._total = 0
        self._jobs: dict[int, tuple[str, float]] = {}
        self._reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print what a record says of a job, an error or a warning; pass over all else."""
        event, said = getattr(record, "event", None), record.__dict__
        if event == LogEvent.RUN_INFO:
            self._total = said["stats"]["total"]
        elif event == LogEvent.JOB_INFO:
            name = " ".join([said["rule_name"], *map(str, (said["wildcards"] or {}).values())])
            self._jobs[said["jobid"]] = name, time.monotonic()
        elif event == LogEvent.JOB_FINISHED:
            self._print(self._line(said["job_id"]))
        elif event in ERRORS or record.levelno >= logging.WARNING or record.getMessage().startswith(NOTHING):
            self._print(self._others.format(record))
            if event == LogEvent.JOB_ERROR:
                self._reasons += [f"{said['rule_name']}: {line}" for line in _errors(said.get("log") or [])]
            elif record.getMessage().startswith(FAILED):
                # Many lines may lie between a job that failed and the end of the others.
                for reason in self._reasons:
                    self._print(reason)

    def _line(self, job: int) -> str:
        """The line of a job that has ended: how many of how many, its name and seconds, and the time left."""
        now = time.monotonic()
        name, began = self._jobs.pop(job, (f"job {job}", now))
        self._done += 1
        left = (now - self._start) / self._done * (self._total - self._done)
        return (
            f"{self._done:>{len(str(self._total))}} of {self._total}: {name} ({now - began:.0f} s), "
            f"about {timedelta(seconds=round(left))} left"
        )

    @staticmethod
    def _print(line: Any) -> None:
        print(line, file=sys.stderr, flush=True)


def _errors(logs: Sequence[str]) -> Iterator[str]:
    """The sentences with which a job's commands ended, from its log files."""
    for path in map(Path, logs):
        if path.exists():
            yield from (
                line for line in path.read_text(errors="replace").splitlines() if line.startswith("error: ")
            )
