"""The columns of the benchmark's table."""

from form_invariance.tables.columns import Schema, integer, number, text

BENCHMARK = Schema(
    "benchmark",
    {
        "suite": text("replay (against hooked passes), cost (dependence on the input) or stages (of one cell)"),
        "stage": text("what was run; in the suite cost, the varied quantity"),
        "tokens": integer("tokens of a prompt, with BOS"),
        "prompts": integer("prompts"),
        "candidates": integer("patched neurons per layer; 0 = none"),
        "layer": integer("patched layer; -1 = all late layers, or none"),
        "seconds": number("fastest of several runs"),
        "units": integer("units of work in that time"),
        "unit": text("patches, pairs, prompts or transfers"),
        "operations": number("floating-point operations per unit, counted"),
        "share": number("units * operations / seconds over the measured rate of matrix products"),
        "speedup": number("time of one hooked forward pass per neuron, divided by replay's time per neuron"),
        "difference": number("largest difference between the indirect effects of replay and of hooked passes"),
    },
)
