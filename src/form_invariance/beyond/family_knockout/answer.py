"""Do the labels say on which prompts a neuron matters?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.beyond.family_knockout.table import FAMILY_KNOCKOUT
from form_invariance.experiment.answers import Answer
from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.verdicts import in_words
from form_invariance.stages.heuristics.names import SHARED
from form_invariance.tables.columns import ALL

INPUTS = {"family_knockout": FAMILY_KNOCKOUT}

QUESTION = "Do the labels say on which prompts a neuron matters?"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The loss where the ablated neurons' rules hold, compared with the loss where they do not."""
    table = tables["family_knockout"]
    over = overall(in_words(table)).drop(columns=["format", "operator"])
    all_families = over[(over["family"] == ALL) & (over["cells"] > 0)]
    whole = all_families[all_families["neurons"] == SHARED]
    if whole.empty:
        return [
            Answer(
                QUESTION, "Undefined: no shared neuron has a label that can be tried.", over, ("family_knockout",)
            )
        ]
    row, right = (whole[whole["metric"] == metric].iloc[0] for metric in (PRIMARY, "accuracy"))
    sentence = (
        f"{row['labelled']} labelled neurons in {row['cells']} cells (k = {row['k']}). If neurons are ablated "
        f"whose rule holds for the prompt ({row['ablated']:.1f} in the mean), they cost {row['first']:z.3f} "
        f"of the answer's probability; equally many of the same layers whose rules do not hold cost "
        f"{row['second']:z.3f}. "
        f"Difference {_difference(row)}: {row['verdict']}{_not_shared(all_families)}. "
        f"By accuracy {_difference(right)}."
    )
    return [Answer(QUESTION, sentence, over, ("family_knockout",))]


def _difference(row: pd.Series) -> str:
    return f"{row['difference']:z.3f} [{row['low']:z.3f}, {row['high']:z.3f}]"


def _not_shared(all_families: pd.DataFrame) -> str:
    """The same difference for neurons that are not shared, as a part of a sentence."""
    rows = all_families[(all_families["metric"] == PRIMARY) & (all_families["neurons"] != SHARED)]
    said = [f"{row['difference']:z.3f} ({row['neurons'].replace('_', ' by ')})" for _, row in rows.iterrows()]
    return f"; of neurons that are not shared {' and '.join(said)}" if said else ""
