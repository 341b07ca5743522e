"""The tables of contrasts from which the verdicts are made."""

from form_invariance.experiment.contrasts.engine import COLUMNS, RATIO
from form_invariance.experiment.contrasts.entries import CONTRASTS as ENTRIES
from form_invariance.tables.columns import Schema, integer, text

CONTRASTS = Schema(
    "contrasts",
    {
        "contrast": text("; ".join(f"{name}: {entry.compared}" for name, entry in ENTRIES.items())),
        "format": text("format of the prompts, or DONOR_to_TARGET; all = over all of them"),
        "operator": text("operator whose neurons these are; all = over all operators"),
        "k": integer("size: neurons per layer and format, of the keys k, best_k or specificity_k"),
        "intervention": text("keep_only, knockout or direct; empty in transfer"),
        "metric": text("faithfulness, accuracy, probability, margin, or rate (of pairs of transfer)"),
        "task": text("own, another task, other_operators (mean), or all_copying (mean of the tasks that copy)"),
        **COLUMNS,
        **RATIO,
    },
    ("model",),
)
RESIDUAL_CONTRASTS = Schema(
    "residual_contrasts",
    {
        "question": text("meet or served (docs/method.md)"),
        "format": text("format that receives; all: over all"),
        "operator": text("operator; all: over all operators"),
        **COLUMNS,
    },
    ("model",),
)
"""Contrasts of the exchanged residual stream, which name the question that they decide."""
