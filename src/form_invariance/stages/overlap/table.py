"""Overlap of the formats' circuits, and how well each agrees with itself."""

import numpy as np
import pandas as pd

from form_invariance.experiment.groups import of_all_formats
from form_invariance.experiment.membership import most_shown
from form_invariance.statistics import Z95
from form_invariance.tables.columns import COMPARED_SETS, EVERY_LAYER, Schema, flag, integer, number, text

OVERLAP = Schema(
    "overlap",
    {
        "k": integer("circuit size: neurons per layer and format"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers"),
        "formats": text("the formats compared, joined by +"),
        "membership": text("which of the top k are members: positive (effect above 0) or top_k (effect not 0)"),
        "used": flag("whether this is the configured rule, which the circuit uses"),
        **COMPARED_SETS,
    },
    ("model", "operator"),
)
BEST = {
    "by_probability": number("Jaccard of the top k by effect and by fall of probability; NaN in across_parts"),
    "raising": number("share of the top k whose mean patch raises the probability; NaN in across_parts"),
    "largest_prompt": number(
        "median over the top k of the largest prompt's share of |effect|; NaN in across_parts"
    ),
}
"""Columns about a format's best k neurons, with the same values for every kind."""
RELIABILITY = Schema(
    "reliability",
    {
        "k": integer("circuit size: neurons per layer"),
        "format": text("format; across_parts: the formats compared, joined by +"),
        "kind": text(
            "what is compared: split_half (halves of the train prompts), parts (a disjoint part for each format), "
            "corrupt_seed (other corrupt partners); across_parts: all formats, each by such a part"
        ),
        "jaccard": number("mean Jaccard of the top-k sets, pooled over the late layers"),
        "low": number("2.5 % percentile over repeats"),
        "high": number("97.5 % percentile over repeats"),
        **BEST,
    },
    ("model", "operator"),
)
OPERATOR_OVERLAP = Schema(
    "operator_overlap",
    {
        "format": text("format"),
        "k": integer("circuit size: neurons per layer"),
        "operators": text("the two operators compared, joined by +"),
        **COMPARED_SETS,
    },
    ("model",),
)

OVERLAPS, SHUFFLED, OPERATORS_OWN, INVARIANCE = "overlap", "shuffled", "operators_own", "invariance"
NOTHING, FORMAT, OPERATOR, BOTH = DIFFERENCES = ("nothing", "format", "operator", "both")
WORDING = "wording"
LARGEST_CHANCE = 0.5
"""If shuffled effects reach more than this share of the ceiling, the invariance is not given."""

DIFFERING = Schema(
    "differing",
    {
        "k": integer("circuit size: neurons per layer"),
        "quantity": text(
            "overlap; shuffled: overlap of two halves of a cell with effects shuffled over a layer's candidates; "
            "operators_own: format - both; invariance: (format - both) / (nothing - both), NaN where shuffled "
            f"exceeds {LARGEST_CHANCE} of nothing"
        ),
        "differs": text("what differs: nothing (halves of a cell's prompts), format, operator, both, or wording"),
        "operators": text("all, one operator (if both differ: it and any other), or two, joined by +"),
        "pairs": integer("pairs of cells that the mean is over, in either order"),
        "value": number("mean Jaccard of two top-k sets, each by half of a cell's train prompts; or the quantity"),
        "low": number("lower 95 % limit: normal, with the standard error of a bootstrap within the halves"),
        "high": number("upper 95 % limit"),
    },
    ("model",),
)

RELIABLE = 0.3
"""Below this reliability a correlation is not corrected."""

FORMAT_CORRELATION = Schema(
    "format_correlation",
    {
        "operator": text("operator; all: mean over the operators in which it is known"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers, within layers"),
        "formats": text("two formats, joined by +; all: mean over the pairs"),
        "pearson": number("Pearson's correlation over neurons of the formats' mean effects, all draws"),
        "spearman": number("Spearman's correlation of the same, ranks within a layer"),
        "reliability_first": number("true / total variance of the first format's mean effects over neurons"),
        "reliability_second": number("the same of the second format (formats = all: mean of both)"),
        "corrected": number("correlation of the true effects, without noise; NaN if a reliability is below 0.3"),
        "low": number("lower 95 % limit of corrected, bootstrap percentiles over prompts"),
        "high": number("upper 95 % limit of corrected"),
        "neurons": integer("neurons that are candidates in every format of the operator"),
    },
    ("model",),
)


def of_all_layers(overlap: pd.DataFrame) -> pd.DataFrame:
    """The pooled rows of an overlap table, by the rule of membership that the circuit uses."""
    return overlap[(overlap["layer"] == EVERY_LAYER) & overlap["used"]]


def all_formats(overlap: pd.DataFrame) -> pd.DataFrame:
    """The pooled rows of an overlap table that compare all formats, by the rule that the circuit uses."""
    return of_all_formats(of_all_layers(overlap))


def half_interval(overlap: pd.DataFrame) -> pd.Series:
    """Half of the interval of a Jaccard: its wider side, because limits are cut at 0 and 1."""
    return (overlap["high"] - overlap["jaccard"]).clip(lower=overlap["jaccard"] - overlap["low"])


def beyond_chance(overlap: pd.DataFrame) -> pd.DataFrame:
    """Columns difference, low and high of pooled rows of an overlap table: Jaccard - chance, with its 95 % limits.

    Even if all prompts agree on a format's best candidates, it may be chance which candidates these are. So the
    interval includes the spread of random candidates.
    """
    half = np.hypot(half_interval(overlap), Z95 * overlap["chance_spread"])
    difference = overlap["jaccard"] - overlap["chance"]
    return pd.DataFrame({"difference": difference, "low": difference - half, "high": difference + half})


def nothing_claimed(k: int, candidates: int) -> str:
    """The reason why no overlap is claimed at this k, whatever its interval; empty if one may be claimed."""
    return f"at k = {k} of {candidates} candidates nothing is claimed" if k > most_shown(candidates) else ""


def with_another(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of an operator_overlap table for each operator of their pair: each row twice, column operator."""
    return table.assign(operator=table["operators"].str.split("+")).explode("operator", ignore_index=True)
