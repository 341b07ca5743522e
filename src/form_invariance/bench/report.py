"""The benchmark's table, figure and lines for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from form_invariance.bench.measure import Measurement
from form_invariance.bench.table import BENCHMARK
from form_invariance.tables.files import write_table


def line(row: Measurement) -> str:
    """One measurement in a line."""
    parts = [
        f"{row.suite:6s} {row.stage:17s} {row.tokens:3d} tokens",
        f"{row.prompts:4d} prompts",
        f"{row.candidates:5d} candidates",
        "late layers" if row.layer < 0 else f"layer {row.layer:5d}",
        f"{row.seconds:9.3f} s",
        f"{1e3 * row.seconds / row.units:9.3f} ms for one of {row.units} {row.unit}",
        f"{row.share:4.0%} of the matmul rate",
    ]
    if row.speedup == row.speedup:
        parts.append(f"{row.speedup:.1f} times faster, IE differs by at most {row.difference:.1e}")
    return "  ".join(parts)


def _growth(rows: Sequence[Measurement], stage: str, by: str) -> str | None:
    """How the cost grows from the smallest to the largest value of what was varied."""
    varied = [row for row in rows if row.suite == "cost" and row.stage == stage]
    if not varied:
        return None
    low, high = (end(varied, key=lambda row: getattr(row, by)) for end in (min, max))
    values = getattr(low, by), getattr(high, by)
    return f"{values[0]} to {values[1]} {stage}: {high.seconds / low.seconds:.2f} times the time"


def summary(rows: Sequence[Measurement], provenance: Mapping[str, Any]) -> str:
    """What was measured on, and how stage 2's cost grows."""
    head = (
        f"{provenance['model']}, {provenance['dtype']}, {provenance['device']}, "
        f"{provenance['threads']} thread(s); matrix products at {provenance['matmul_rate'] / 1e9:,.0f} GFLOP/s"
    )
    growth = [_growth(rows, stage, stage) for stage in ("tokens", "candidates", "prompts")]
    return "\n".join([head, *(one for one in growth if one)])


def write(rows: Sequence[Measurement], folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write bench.parquet, and the figure as bench.png, bench.svg and bench.pdf."""
    from form_invariance.bench import figure as bench
    from form_invariance.drawing import style

    table = pd.DataFrame([asdict(row) for row in rows])
    write_table(table, folder / "bench.parquet", BENCHMARK, provenance)
    outputs = [folder / f"bench.{kind}" for kind in ("png", "svg", "pdf")]
    style.save(bench.draw(table, str(provenance["model"])), outputs)
