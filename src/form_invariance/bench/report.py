"""Write the benchmark's table and figure, and print its results."""

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
        f"{1e3 * row.seconds / row.units:9.3f} ms each for {row.units} {row.unit}",
        f"{row.share:4.0%} of the matmul rate",
    ]
    if row.speedup == row.speedup:
        parts.append(
            f"{row.speedup:.1f} times faster than one hooked forward pass per neuron, IE differs by at most "
            f"{row.difference:.1e}"
        )
    return "  ".join(parts)


def _growth(rows: Sequence[Measurement], varied: str) -> str | None:
    """How the time grows from the smallest to the largest value of the varied quantity."""
    own = {getattr(row, varied): row.seconds for row in rows if row.suite == "cost" and row.stage == varied}
    if not own:
        return None
    return f"{min(own)} to {max(own)} {varied}: {own[max(own)] / own[min(own)]:.2f} times the time"


def summary(rows: Sequence[Measurement], provenance: Mapping[str, Any]) -> str:
    """The model and the machine, and how the time of stage 2 grows."""
    head = (
        f"{provenance['model']}, {provenance['dtype']}, {provenance['device']}, "
        f"{provenance['threads']} thread(s); matrix products at {provenance['matmul_rate'] / 1e9:,.0f} GFLOP/s"
    )
    growth = [_growth(rows, varied) for varied in ("tokens", "candidates", "prompts")]
    return "\n".join([head, *(one for one in growth if one)])


def write(rows: Sequence[Measurement], folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write bench.parquet, and the figure as bench.png, bench.svg and bench.pdf."""
    from form_invariance.bench import figure as bench
    from form_invariance.drawing import style

    table = pd.DataFrame([asdict(row) for row in rows])
    write_table(table, folder / "bench.parquet", BENCHMARK, provenance)
    outputs = [folder / f"bench.{kind}" for kind in ("png", "svg", "pdf")]
    style.save(bench.draw(table, str(provenance["model"])), outputs)
