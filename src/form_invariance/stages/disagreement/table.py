"""What the formats' disagreement is made of."""

import pandas as pd

from form_invariance.tables.columns import EVERY_LAYER, Schema, integer, number, text

ALL = "all"
"""The operator, or the pair of formats, of rows over all of them."""

RELIABLE = 0.3
"""A correlation is not corrected by a lower reliability."""

COMPONENTS = {
    "neuron": "of the effects that all formats share (in the rows of all operators: and all operators)",
    "operator": "neuron x operator, the same in all formats (rows of all operators)",
    "template": "neuron x template: format and wording together",
    "template_common": "the part of template that is the same in all operators (rows of all operators)",
    "scale": "the part of template that one factor for each format explains (not unbiased; no interval)",
    "format": "neuron x format: template less wording (operators with paraphrases)",
    "wording": "neuron x wording within a format (operators with paraphrases)",
    "draw": "neuron x draw: of the mean over prompts, by how prompts are paired with partners",
    "prompt": "neuron x prompt, as a prompt and as a partner (with one draw also draw)",
    "invariance": "operator / (operator + template - template_common): how much of an operator's own its formats "
    "share (rows of all operators)",
    "generic": "neuron / (neuron + operator + template): how much all formats and operators share (likewise)",
    "total": "half the variance of the difference of two formats' mean effects",
}
"""The variance components and their meaning."""

DISAGREEMENT = Schema(
    "disagreement",
    {
        "operator": text("operator; all: mean over the operators in which it is known"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers"),
        "component": text("; ".join(f"{name}: {meaning}" for name, meaning in COMPONENTS.items())),
        "value": number(
            "variance over neurons; unbiased, so it can be negative; NaN: cannot be separated (invariance and "
            "generic: the ratio)"
        ),
        "low": number("lower 95 % limit, bootstrap percentiles over the prompts of each cell"),
        "high": number("upper 95 % limit"),
        "share": number("share of total (all operators: of the mean total); NaN: no part of it"),
        "share_low": number("lower 95 % limit of the share"),
        "share_high": number("upper 95 % limit of the share"),
        "neurons": integer("neurons that are candidates in every cell and wording"),
        "prompts": integer("train prompts of a cell (the smallest number)"),
        "draws": integer("draws of corrupt partners (the smallest number)"),
    },
)

FORMAT_CORRELATION = Schema(
    "format_correlation",
    {
        "operator": text("operator; all: mean over the operators in which it is known"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers, within layers"),
        "formats": text("two formats, joined by +; all: mean over the pairs"),
        "pearson": number("Pearson's correlation over neurons of the formats' mean effects, all draws"),
        "spearman": number("Spearman's correlation of the same, ranks within a layer"),
        "reliability_first": number(
            "of the first format's mean effects: variance of the true effects / their variance"
        ),
        "reliability_second": number("of the second format (formats = all: the mean of both)"),
        "corrected": number(
            "correlation of the true effects, without noise; NaN where a reliability is below 0.3"
        ),
        "low": number("lower 95 % limit of corrected, bootstrap percentiles over prompts"),
        "high": number("upper 95 % limit of corrected"),
        "neurons": integer("neurons that are candidates in every format and wording of the operator"),
    },
)


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows over all late layers."""
    return table[table["layer"] == EVERY_LAYER]


def wide(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """A column of a disagreement table's pooled rows: operators in rows, components in columns."""
    return pooled(table).pivot(index="operator", columns="component", values=column)
