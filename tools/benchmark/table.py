"""The columns of the benchmark's table."""

from form_invariance.tables.columns import Schema, integer, number, text

BENCHMARK = Schema(
    "benchmark",
    {
        "suite": text("replay (against other ways to patch) or stages (of one cell)"),
        "stage": text("what was run: a stage or a way to patch"),
        "tokens": integer("tokens of a prompt, with BOS"),
        "prompts": integer("prompts"),
        "candidates": integer("patched neurons per layer; 0 = none"),
        "layer": integer("patched layer; -1 = all late layers, or none"),
        "batch": integer("rows of a batch of a way to patch; 0 = chosen by the stage"),
        "seconds": number("fastest of several runs; CPU seconds on one CPU thread, else elapsed seconds"),
        "units": integer("units of work in that time"),
        "unit": text("patches, pairs, prompts or transfers"),
        "operations": number("floating-point operations per unit, counted"),
        "share": number("units * operations / seconds over the measured rate of matrix products"),
        "speedup": number("replay: time of this way to patch per neuron, divided by replay's time per neuron"),
        "difference": number("replay: largest difference from replay's indirect effects over the largest of them"),
    },
)
