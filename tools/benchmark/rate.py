"""The rate at which this machine multiplies matrices of a model's size."""

import gc
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from form_invariance.model.decoder import Decoder

T = TypeVar("T")

_ENOUGH = 15.0
"""Total seconds after which a run is not repeated."""


def fastest(runs: Sequence[Callable[[], T]], repeats: int, device: torch.device) -> tuple[list[float], list[T]]:
    """Seconds of the fastest repeat of each run, and the results of the first repeats.

    The runs take turns, so that other work slows all of them alike. On one CPU thread these are CPU seconds; else
    elapsed seconds until the GPU has finished.
    """
    one_thread = device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if one_thread else time.perf_counter
    times: list[list[float]] = [[] for _ in runs]
    results = []
    gc.collect()
    for _ in range(repeats):
        for run, seconds in zip(runs, times, strict=True):
            if sum(seconds) < _ENOUGH:
                _wait(device)
                start = clock()
                result = run()
                _wait(device)
                seconds.append(clock() - start)
                if len(seconds) == 1:
                    results.append(result)
    return [min(seconds) for seconds in times], results


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_rate(model: Decoder) -> float:
    """Floating-point operations per second of a matrix product of the MLP's size in the model's precision."""
    rows = 8192 if model.device.type == "cuda" else 1024
    d, m = model.config.d_model, model.config.d_mlp
    x, w = (torch.randn(n, d, dtype=model.dtype, device=model.device) for n in (rows, m))
    torch.mm(x, w.T)
    return 2 * rows * d * m / fastest([lambda: x @ w.T], 20, model.device)[0][0]
