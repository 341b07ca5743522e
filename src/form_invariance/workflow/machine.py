"""This machine's cores, and the rate at which a job computes on one of them."""

import os
import time
from functools import cache

import numpy as np

CPU_SHARE = 0.65
"""Assumed rate of a job, as a share of the core's rate of matrix products."""


def cores() -> int:
    """Cores that this process may use, as Linux reports them; elsewhere all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def cpu_rate() -> float:
    """Assumed operations per second of a job on one core, measured by at most a second of matrix products."""
    n, repeats = 1024, 5
    x = np.ones((n, n), dtype=np.float32)
    x @ x
    start = time.process_time()
    for _ in range(repeats):
        x @ x
    return CPU_SHARE * repeats * 2 * n**3 / (time.process_time() - start)
