"""Train and eval prompts, and corrupt partners."""

from form_invariance.tables.columns import CELL, PROBLEM, WHOLE_CORRECT, Schema, flag, integer, text

DATASET = Schema(
    "dataset",
    {
        "split": text("train or eval"),
        "index": integer("number of the prompt within its split, from 0"),
        **PROBLEM,
        "whole_correct": WHOLE_CORRECT,
    },
    CELL,
)
CORRUPT = Schema(
    "corrupt",
    {
        "corrupt_seed": integer("which draw of partners, from 0; 0 is the one that ranks"),
        "index": integer("number of the train prompt that the partner belongs to"),
        "partner_operator": text("the partner's operator"),
        **PROBLEM,
    },
    CELL,
)
PREFLIGHT = Schema(
    "preflight",
    {
        "format": text("format"),
        "operator": text("operator"),
        "asked": integer("problems of the census, drawn uniformly"),
        "right": integer("problems that the model answers right"),
        "enough": flag("there are as many train and eval prompts as the run asks for"),
        "train_fits": integer("train prompts that there are, with eval prompts in the run's proportion"),
        "eval_fits": integer("eval prompts that there are with them"),
        "all_fit": integer("train prompts for which all cells have enough; 0 without any"),
        "correctable": integer("problems answered wrong here and right in another format: those of transfer"),
        "reason": text("why there are not enough; empty if there are"),
    },
    ("model",),
)
