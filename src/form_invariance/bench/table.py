"""Benchmarks."""

from form_invariance.tables.columns import Schema, integer, number, text

BENCHMARK = Schema(
    "benchmark",
    {
        "suite": text("replay (against hooked passes), cost (what it depends on) or stages (of one cell)"),
        "stage": text("what ran; in suite cost, what was varied"),
        "tokens": integer("tokens of a prompt, with BOS"),
        "prompts": integer("prompts"),
        "candidates": integer("neurons of a layer that are patched; 0 = none"),
        "layer": integer("layer that is patched; -1 = all late layers, or none"),
        "seconds": number("fastest of several runs"),
        "units": integer("units of work in that time"),
        "unit": text("patches, pairs, prompts or transfers"),
        "operations": number("floating-point operations of a unit, by count"),
        "share": number("units * operations / seconds over the measured rate of matrix products"),
        "speedup": number("time of a hooked forward pass over that of a replayed patch"),
        "difference": number("largest difference of the indirect effects of these two"),
    },
)
