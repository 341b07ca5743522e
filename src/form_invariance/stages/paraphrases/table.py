"""Overlap of the circuits of two wordings."""

import pandas as pd

from form_invariance.tables.columns import COMPARED_SETS, Schema, integer, number, text

CANONICAL = "canonical"
"""A cell's template among its wordings."""

FEWEST = 10
"""Fewer prompts than these do not rank the neurons of a paraphrase."""

YES, NO, UNKNOWN = "yes", "no", "unknown"
"""Whether two wordings end in the same token."""

PARAPHRASES = Schema(
    "paraphrases",
    {
        "first_format": text("format of the first wording"),
        "first": text("the first wording of the operator's problems: canonical, variant_1, ..."),
        "second_format": text("format of the second wording"),
        "second": text("the second wording; two formats: both canonical, or the first two of the same last token"),
        "same_final_token": text("they end in the same token: yes, no, or unknown (a format without variants)"),
        "asked": integer("train pairs of a cell"),
        "right": integer("one format: pairs right in both wordings; two formats: in its own, the smaller number"),
        "prompts": integer(
            "prompts that rank each (the smaller number), of the same pairs in one format; 0 where fewer than 10 "
            "are right"
        ),
        "partners_right": integer("of these, those whose corrupt partner is right too"),
        "k": integer("circuit size: neurons per layer"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers"),
        **COMPARED_SETS,
        "across_halves": number("mean Jaccard, each ranked by another half of the prompts (pooled rows)"),
        "within_halves": number("the same of a wording and itself, mean of the two: the ceiling (pooled rows)"),
        "effect_of_first": number("effect in the second of the first's top-k, over that of the second's own"),
        "effect_of_second": number("effect in the first of the second's top-k, over that of the first's own"),
    },
)


def one_format(table: pd.DataFrame) -> pd.Series:
    """Which rows of a paraphrases table compare wordings of one format."""
    return table["first_format"] == table["second_format"]


def two_templates(table: pd.DataFrame) -> pd.Series:
    """Which rows compare two formats' templates."""
    return ~one_format(table) & (table["first"] == table["second"]) & (table["first"] == CANONICAL)


def one_ending(table: pd.DataFrame) -> pd.Series:
    """Which rows compare two formats in wordings that end in the same token."""
    return ~one_format(table) & (table["same_final_token"] == YES)
