"""Write the benchmark's table and figure, and print its results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from form_invariance.bench.measure import Row
from form_invariance.bench.rivals import RIVALS
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
    if row["stage"] in RIVALS:
        parts.append(
            f"batches of {row['batch']}, {row['speedup']:.1f} times replay's time, IE differs by at most "
            f"{row['difference']:.1e} of the largest"
        )
    return "  ".join(parts)


def speedup(rows: Sequence[Row], tokens: int, where: str) -> str:
    """How many times faster replay is than each rival, the strongest first.

    Args:
        rows: of replay and its rivals at this number of tokens, the mean over late layers.
        where: "one CPU thread" or similar.
    """
    rivals = sorted((row for row in rows if row["stage"] in RIVALS), key=lambda row: row["speedup"])
    told = ", ".join(
        f"{row['speedup']:.1f} times faster than {RIVALS[row['stage']].description}" for row in rivals
    )
    return f"replay is {told} ({tokens} tokens, mean over late layers, {where})"


def summary(rows: Sequence[Row], provenance: Mapping[str, Any]) -> str:
    """The model and the machine, replay's speed-up, and how the time of stage 2 grows with each quantity."""
    lines = [
        f"{provenance['model']}, {provenance['dtype']}, {provenance['device']}, "
        f"{provenance['threads']} thread(s); matrix products at {provenance['matmul_rate'] / 1e9:,.0f} GFLOP/s"
    ]
    threads = "one thread" if provenance["threads"] == 1 else f"{provenance['threads']} threads"
    where = "GPU" if provenance["device"] == "cuda" else f"{threads} of the CPU"
    means = [row for row in rows if row["suite"] in ("replay", "ioi") and row["layer"] < 0]
    for suite, tokens in dict.fromkeys((row["suite"], row["tokens"]) for row in means):
        factors: dict[str, list[float]] = {}
        for row in means:
            if (row["suite"], row["tokens"]) == (suite, tokens):
                factors.setdefault(row["stage"], []).append(row["speedup"])
        own = [{"stage": stage, "speedup": sum(found) / len(found)} for stage, found in factors.items()]
        lines.append(speedup(own, tokens, where))
    for varied in ("tokens", "candidates", "prompts"):
        spent = {row[varied]: row["seconds"] for row in rows if (row["suite"], row["stage"]) == ("cost", varied)}
        if spent:
            growth = spent[max(spent)] / spent[min(spent)]
            lines.append(f"{min(spent)} to {max(spent)} {varied}: {growth:.2f} times the time")
    return "\n".join(lines)


def write(rows: Sequence[Row], folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write bench.parquet, and the figure as bench.png, bench.svg and bench.pdf."""
    from form_invariance.bench import figure as bench
    from form_invariance.drawing import style

    table = pd.DataFrame(rows)
    write_table(table, folder / "bench.parquet", BENCHMARK, provenance)
    outputs = [folder / f"bench.{kind}" for kind in ("png", "svg", "pdf")]
    style.save(bench.draw(table, str(provenance["model"])), outputs)
