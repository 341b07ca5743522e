"""Where can the answer be read from the residual stream?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.experiment.answers import Answer
from form_invariance.stages.probe.summary import curve, peak
from form_invariance.stages.probe.table import PROBE

INPUTS = {"probe": PROBE}
QUESTION = "Where can the answer be read?"
NO_LAYER = "no layer"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Onset and peak of each format's probe."""
    rows = []
    for name, table in tables["probe"].groupby("format", sort=False):
        highest = peak(curve(table))
        onset = NO_LAYER if highest.onset is None else highest.onset
        rows.append((str(name), onset, highest.layer, highest.accuracy))
    onsets = [f"{onset if onset == NO_LAYER else f'layer {onset}'} ({name})" for name, onset, *_ in rows]
    sentence = (
        f"At the last token, a linear probe reads more than half of the answers from {', '.join(onsets)} onwards."
    )
    table = pd.DataFrame(rows, columns=["format", "onset layer", "best layer", "accuracy there"])
    return [Answer(QUESTION, sentence, table, ("probe", "probe_positions"))]
