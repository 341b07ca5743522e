"""What this machine can do: its cores, and the rate at which a job computes on one of them."""

import os
import time
from functools import cache

import numpy as np

CPU_SHARE = 0.65
"""Assumed share of a core's rate of matrix products that a job reaches."""


def cores() -> int:
    """Cores that this process may use."""
    # Only Linux says which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def cpu_rate() -> float:
    """Operations per second of a job on one core of this machine, from a second of matrix products or less."""
    n, repeats = 1024, 5
    x = np.ones((n, n), dtype=np.float32)
    x @ x
    start = time.process_time()
    for _ in range(repeats):
        x @ x
    return CPU_SHARE * repeats * 2 * n**3 / (time.process_time() - start)
