"""Linear probes."""

from form_invariance.tables.columns import Schema, integer, number, text

PROBE = Schema(
    "probe",
    {
        "trained": text("formats whose prompts train the probe, joined by +"),
        "tested": text("formats whose prompts test it, joined by +"),
        "operator": text("operator of both, or all"),
        "layer": integer("layer whose output (resid_post) is read, from 0"),
        "position": integer("token counted from the last, 0 = the last"),
        "token": text("token of the first operator's prompts here, {a} or {b}; empty where prompts differ"),
        "train_prompts": integer("training prompts"),
        "test_prompts": integer("test prompts, of other operand pairs or rows"),
        "answers": integer("distinct answers of both (of a table, distinct first tokens)"),
        "accuracy": number("fraction of test prompts whose answer the probe reads"),
        "low": number("Wilson 95 % lower limit of accuracy"),
        "high": number("Wilson 95 % upper limit of accuracy"),
        "reachable": number("share of test prompts whose answer a training prompt has: the ceiling of accuracy"),
        "majority": number("accuracy of always answering with the training prompts' most frequent answer"),
        "shuffled": number("accuracy of a probe whose training prompts' answers were shuffled"),
    },
    ("model", "format"),
)
