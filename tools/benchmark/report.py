"""Write the benchmark's table and figure, and print its results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.measure import Row
from benchmark.rivals import RIVALS
from benchmark.table import BENCHMARK
from form_invariance.tables.files import write_table


def line(row: Row) -> str:
    """One measurement as a line of text."""
    parts = [
        "{suite:6s} {stage:17s} {tokens:3d} tokens  {prompts:4d} prompts  {candidates:5d} candidates".format(
            **row
        ),
        "late layers" if row["layer"] < 0 else f"layer {row['layer']:5d}",
        f"{row['seconds']:9.3f} s",
        f"{1e3 * row['seconds'] / row['units']:9.3f} ms each for {row['units']} {row['unit']}",
        f"{row['share']:4.0%} of the matmul rate",
    ]
    if row["stage"] in RIVALS:
        parts.append(
            f"batches of {row['batch']}, {row['speedup']:.1f} times replay's time, IE differs by at most "
            f"{row['difference']:.1e} of the largest"
        )
    return "  ".join(parts)


def speedup(factors: "pd.Series[float]", tokens: int, where: str) -> str:
    """How many times faster replay is than each rival, the strongest first.

    Args:
        factors: by rival, the mean over late layers in prompts of this number of tokens.
        where: "one CPU thread" or similar.
    """
    strongest = factors.sort_values().items()
    comparisons = ", ".join(
        f"{factor:.1f} times faster than {RIVALS[str(name)].description}" for name, factor in strongest
    )
    return f"replay is {comparisons} ({tokens} tokens, mean over late layers, {where})"


def summary(rows: Sequence[Row], provenance: Mapping[str, Any]) -> str:
    """The model and the machine, and replay's speed-up."""
    lines = [
        f"{provenance['model']}, {provenance['dtype']}, {provenance['device']}, "
        f"{provenance['threads']} thread(s); matrix products at {provenance['matmul_rate'] / 1e9:,.0f} GFLOP/s"
    ]
    threads = "one thread" if provenance["threads"] == 1 else f"{provenance['threads']} threads"
    where = "GPU" if provenance["device"] == "cuda" else f"{threads} of the CPU"
    table = pd.DataFrame(rows)
    means = table[table["stage"].isin(RIVALS) & (table["layer"] < 0)]
    for _, length_rows in means.groupby("tokens", sort=False):
        lines.append(speedup(length_rows.groupby("stage")["speedup"].mean(), length_rows["tokens"].iloc[0], where))
    return "\n".join(lines)


def write(rows: Sequence[Row], folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write bench.parquet, and the figure as bench.png, bench.svg and bench.pdf."""
    from benchmark import figure as bench
    from form_invariance.drawing import style

    table = pd.DataFrame(rows)
    write_table(table, folder / "bench.parquet", BENCHMARK, provenance)
    outputs = [folder / f"bench.{kind}" for kind in ("png", "svg", "pdf")]
    style.save(bench.draw(table, str(provenance["model"])), outputs)
