"""Progress lines for long work: how far, how fast, how long still."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def track(
    items: Iterable[Item], total: float, label: str, *, weight: float = 1.0, every: float = 5.0
) -> Iterator[Item]:
    """Yield `items`, and say on standard error how the work goes, at most every few seconds and at the end.

    Args:
        items: the pieces of work.
        total: how much work there is in all, in the label's unit.
        label: what is counted, for instance ``"prompts"``.
        weight: how much of `total` each item is.
        every: seconds between two lines.
    """
    start = last = time.monotonic()
    done = 0.0
    for item in items:
        yield item
        done = min(done + weight, total)
        now = time.monotonic()
        if now - last >= every or done >= total:
            rate = done / max(now - start, 1e-9)
            left = (total - done) / max(rate, 1e-9)
            print(
                f"{done:,.0f} of {total:,.0f} {label}, {rate:,.0f} per second, {left:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )
            last = now
