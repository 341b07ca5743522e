"""Exchange of the residual stream at the last token."""

from form_invariance.tables.columns import CELL, Schema, flag, integer, number, text

FORMAT, OPERATOR, COPIED, REPAIR = "format", "operator", "copied", "repair"
"""Kinds of donors."""

OWN, OTHERS = "own format", "other formats"
"""The donors of kind `FORMAT` in rows over formats."""

ALONE, TOGETHER = "alone", "together"
"""Exchanges of a head."""

MEET, SERVED = "meet", "served"
"""The questions that the contrasts answer (`experiment.contrasts.questions`)."""

RESIDUAL_EXCHANGE = Schema(
    "residual_exchange",
    {
        "donor": text(
            "format (another problem of this operator with another answer), operator (another operator, this "
            "format, another answer), copied (a copying task, this format, the answer of this format's donor), "
            "repair (the same problem in another format, where this format is wrong)"
        ),
        "donor_format": text("format of the donor"),
        "a": integer("first operand of the target"),
        "b": integer("second operand of the target"),
        "layer": integer("layer after which the state is exchanged, from 0"),
        "donor_answer": flag("the output is that of the donor's own run"),
        "permuted_answer": number("share of the other targets' donors whose own output is the output"),
        "own_answer": flag("the output is that of the target's own run"),
        "donor_probability": number("probability of the donor's output"),
        "own_probability": number("probability of the target's output"),
    },
    CELL,
)
_INTERVAL = {"low": number("95 % lower limit, problems resampled"), "high": number("95 % upper limit")}
RESIDUAL_SHARES = Schema(
    "residual_shares",
    {
        "operator": text("operator of the targets"),
        "donor": text("own format, other formats, operator, copied or repair, mean over the targets' formats"),
        "layer": integer("layer after which the state is exchanged, from 0"),
        "prompts": integer("exchanges"),
        "donor_answer": number("share of outputs that are the donor's"),
        **_INTERVAL,
        "permuted_answer": number("share of outputs that are another target's donor's"),
        "own_answer": number("share of outputs that are still the target's"),
    },
    ("model",),
)
RESIDUAL_LAYERS = Schema(
    "residual_layers",
    {
        "operator": text("operator"),
        "donor_format": text("format that gives"),
        "target_format": text("format that receives"),
        "quantity": text("meets (of one format: arrives): the first layer; leaves: the last one (docs/method.md)"),
        "value": number("layer, from 0; NaN: none"),
        **_INTERVAL,
    },
    ("model",),
)
HEADS = Schema(
    "heads",
    {
        "target_format": text("format that receives"),
        "donor_format": text("format that gives, another problem with another answer"),
        "layer": integer("layer of the heads: where the own formats' states arrive, from 0"),
        "head": integer("attention head (query head), from 0"),
        "rank": integer("its rank in this layer by its effect alone on the other half of the problems, from 1"),
        "member": flag("one of the first by rank that decide 0.8 of what all heads of the layer decide together"),
        "exchanged": text("alone (this head), or together (all heads up to its rank)"),
        "prompts": integer("exchanges"),
        "donor_answer": number("share of outputs that are the donor's"),
        **_INTERVAL,
        "donor_probability": number("mean probability of the donor's output"),
    },
    ("model", "operator"),
)
ANSWER, CARRY = "answer", "carry"
"""Targets of the probes of what arrives, besides the operands' digits."""
ATTENTION, MLP = "attention", "MLP"
"""The points of a layer, in order."""

ARRIVAL_PROBES = Schema(
    "arrival_probes",
    {
        "target": text("what is read: the digit of answer, a or b that counts 1, 10, ..., or the carry into it"),
        "trained": text("format whose prompts train the probe"),
        "tested": text("format whose prompts test it, of other problems"),
        "layer": integer("layer, from 0"),
        "point": text("where the last token's residual stream is read: after the attention, or after the MLP"),
        "train_prompts": integer("training prompts"),
        "test_prompts": integer("test prompts"),
        "accuracy": number("share of test prompts whose target the probe reads"),
        "low": number("Wilson 95 % lower limit"),
        "high": number("Wilson 95 % upper limit"),
        "chance": number("share of test prompts that have the training prompts' most frequent target"),
    },
    ("model", "operator"),
)
