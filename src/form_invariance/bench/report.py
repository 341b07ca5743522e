"""Write the benchmark's table and figure, and print its results."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from form_invariance.bench.measure import Row
from form_invariance.bench.table import BENCHMARK
from form_invariance.tables.files import write_table


def line(row: Row) -> str:
    """One measurement in a line."""
    parts = [
        "{suite:6s} {stage:17s} {tokens:3d} tokens  {prompts:4d} prompts  {candidates:5d} candidates".format(
            **row
        ),
        "late layers" if row["layer"] < 0 else f"layer {row['layer']:5d}",
        f"{row['seconds']:9.3f} s",
        f"{1e3 * row['seconds'] / row['units']:9.3f} ms each for {row['units']} {row['unit']}",
        f"{row['share']:4.0%} of the matmul rate",
    ]
    if not math.isnan(row["speedup"]):
        parts.append(
            f"{row['speedup']:.1f} times faster than one hooked forward pass per neuron, IE differs by at most "
            f"{row['difference']:.1e}"
        )
    return "  ".join(parts)


def summary(rows: Sequence[Row], provenance: Mapping[str, Any]) -> str:
    """The model and the machine, and how the time of stage 2 grows with each quantity."""
    lines = [
        f"{provenance['model']}, {provenance['dtype']}, {provenance['device']}, "
        f"{provenance['threads']} thread(s); matrix products at {provenance['matmul_rate'] / 1e9:,.0f} GFLOP/s"
    ]
    for varied in ("tokens", "candidates", "prompts"):
        own = {row[varied]: row["seconds"] for row in rows if (row["suite"], row["stage"]) == ("cost", varied)}
        if own:
            growth = own[max(own)] / own[min(own)]
            lines.append(f"{min(own)} to {max(own)} {varied}: {growth:.2f} times the time")
    return "\n".join(lines)


def write(rows: Sequence[Row], folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write bench.parquet, and the figure as bench.png, bench.svg and bench.pdf."""
    from form_invariance.bench import figure as bench
    from form_invariance.drawing import style

    table = pd.DataFrame(rows)
    write_table(table, folder / "bench.parquet", BENCHMARK, provenance)
    outputs = [folder / f"bench.{kind}" for kind in ("png", "svg", "pdf")]
    style.save(bench.draw(table, str(provenance["model"])), outputs)
