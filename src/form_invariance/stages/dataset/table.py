"""Train and eval prompts, and corrupt partners."""

from form_invariance.tables.columns import PROBLEM, WHOLE_CORRECT, Schema, integer, text

DATASET = Schema(
    "dataset",
    {
        "split": text("train or eval"),
        "index": integer("number of the prompt within its split, from 0"),
        **PROBLEM,
        "whole_correct": WHOLE_CORRECT,
    },
)
CORRUPT = Schema(
    "corrupt",
    {
        "corrupt_seed": integer("which draw of partners, from 0; 0 is the one that ranks"),
        "index": integer("number of the train prompt that the partner belongs to"),
        "operator": text("the partner's operator"),
        **PROBLEM,
    },
)
