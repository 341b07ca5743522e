"""Progress lines of long work: how much is done, the rate, the time left.

tqdm redraws one line of a terminal; these are ordinary lines, which a job's log keeps.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

_silent = False


@contextmanager
def silent() -> Iterator[None]:
    """Print no lines: the work inside is a small part of work that has its own line."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


class Progress:
    """Counts work. Prints a line to standard error at most every few seconds, and at the end."""

    def __init__(self, total: float, label: str, interval: float = 5.0) -> None:
        """Start at 0 of `total`; `label` names the unit, `interval` is the fewest seconds between lines."""
        self._total, self._label, self._interval = total, label, interval
        self._start = self._last = time.monotonic()
        self._done = self._resumed = 0.0

    def resume(self, done: float) -> None:
        """Set the amount that an earlier run has done. It does not count towards the rate."""
        self._done = self._resumed = done

    def add(self, amount: float, note: str = "") -> None:
        """Add to the amount done; `note` is printed at the end of the line."""
        self._done = min(self._done + amount, self._total)
        now = time.monotonic()
        if _silent or (now - self._last < self._interval and self._done < self._total):
            return
        self._last = now
        rate = (self._done - self._resumed) / max(now - self._start, 1e-9)
        left = (self._total - self._done) / max(rate, 1e-9)
        line = f"{self._done:,.0f} of {self._total:,.0f} {self._label}, {rate:,.2f} per second, {left:,.0f} s left"
        print(f"{line}, {note}" if note else line, file=sys.stderr, flush=True)


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Yield the `total` items and print the progress."""
    progress = Progress(total, label)
    for item in items:
        yield item
        progress.add(1)
