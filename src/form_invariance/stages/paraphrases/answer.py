"""Is a circuit of one paraphrase the circuit of another?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.paraphrases.table import PARAPHRASES, one_ending, one_format, two_templates
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"paraphrases": Input(PARAPHRASES, ("operator",))}
_IDENTITY = ["first_format", "first", "second_format", "second", "same_final_token", "asked", "prompts"]
_MEASURES = ["jaccard", "low", "high", "chance", "across_halves", "within_halves"]
_EFFECTS = ["effect_of_first", "effect_of_second"]


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The overlap of two wordings compared with that of two formats."""
    rows = tables["paraphrases"]
    chosen = rows[(rows["layer"] == EVERY_LAYER) & (rows["k"] == k)]
    measured = chosen[chosen["prompts"] > 0]
    wordings, formats = measured[one_format(measured)], measured[two_templates(measured)]
    alike = measured[one_ending(measured)]
    sentence = "Too few prompts are answered correctly in two wordings, so there is nothing to compare."
    halves = ["across_halves", "within_halves"]
    if len(wordings):
        one, two = wordings[halves].mean(), formats[halves].mean()
        sentence = (
            f"Ranked by different prompts, the best {k} neurons of two wordings of a format have a mean Jaccard "
            f"of {one['across_halves']:.2f}; those of one wording and itself {one['within_halves']:.2f}. For two "
            f"formats the values are {two['across_halves']:.2f} and {two['within_halves']:.2f}; by chance "
            f"{wordings['chance'].mean():.2f}. One wording's best neurons have "
            f"{percent(wordings[_EFFECTS].to_numpy().mean())} of the effect of the other's own."
        )
    if len(alike):
        across, within = alike[halves].mean()
        sentence += (
            f" If the prompts of two formats end in the same token, they are {across:.2f} and {within:.2f}."
        )
    table = chosen[["operator", *_IDENTITY, *_MEASURES, *_EFFECTS]]
    return [Answer("Is a circuit of one paraphrase the circuit of another?", sentence, table, ("paraphrases",))]
