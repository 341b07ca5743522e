"""Measure a function: seconds, work done, and the share of the machine's rate of matrix products."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.utils.flop_counter import FlopCounterMode, flop_registry

from benchmark.rate import fastest
from form_invariance.model.decoder import Decoder
from form_invariance.model.near_readout import Readouts
from form_invariance.model.sizes import DecoderConfig

Row = dict[str, Any]
"""One row of the benchmark's table (`table.py` explains the columns)."""


@dataclass(frozen=True)
class Machine:
    """What all measurements share. `rate` is that of matrix products of the size of the model's MLP."""

    model: Decoder
    rate: float  # floating-point operations per second
    repeats: int
    readouts: Readouts = field(default_factory=lambda: Readouts(full=True))

    def measure(self, run: Callable[[], object], units: int, operations: float, **row: Any) -> Row:
        """Measure `run`, which does `units` units of work with `operations` floating-point operations each.

        `row` has other columns; the defaults are those of one prompt without candidates.
        """
        return self.row(fastest([run], self.repeats, self.model.device)[0][0], units, operations, **row)

    def row(self, seconds: float, units: int, operations: float, **row: Any) -> Row:
        """A row of the table; the arguments are those of `measure`."""
        share = units * operations / seconds / self.rate
        measured = {"seconds": seconds, "units": units, "operations": float(operations), "share": share}
        missing = {"prompts": 1, "candidates": 0, "layer": -1, "batch": 0}
        return {**missing, "speedup": math.nan, "difference": math.nan, **measured, **row}


_FUSED = {op: lambda *_, **__: 0 for op in flop_registry if "scaled_dot_product" in str(op)}


def matrix_operations(run: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products that `run` does.

    Fused attention is left out: PyTorch counts none on a CPU, and refuses grouped queries on a GPU.
    """
    with FlopCounterMode(display=False, custom_mapping=_FUSED) as counter:
        run()
    return int(counter.get_total_flops())


def _layer_operations(c: DecoderConfig, tokens: int) -> int:
    """Floating-point operations of one token in one layer, if it attends to `tokens` tokens."""
    return 2 * c.layer_parameters + 4 * c.n_heads * c.d_head * tokens


def unembedding_operations(c: DecoderConfig) -> int:
    """Floating-point operations of one token's logits."""
    return 2 * c.d_model * c.vocabulary


def pass_operations(c: DecoderConfig, tokens: int) -> int:
    """Floating-point operations of all layers over a prompt, and of its last token's logits."""
    return c.n_layers * tokens * _layer_operations(c, tokens) + unembedding_operations(c)


def replay_operations(c: DecoderConfig, layers_above: int, tokens: int) -> int:
    """Floating-point operations of one patched neuron: the layers above it and the unembedding."""
    return layers_above * _layer_operations(c, tokens) + unembedding_operations(c)
