"""How often a verdict says yes or no where nothing is to be found (method, section 15).

Each question is asked again of tables in which its null is true: a draw of a control takes the place of the
circuit, donors are permuted, two conditions change places, formats are of different operators.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.contrasts import ALL, overall, verdict
from form_invariance.stages.intervention_kinds import ASKED
from form_invariance.stages.interventions.contrasts import cell_of
from form_invariance.stages.interventions.contrasts import contrast_table as intervention_contrasts
from form_invariance.stages.membership import Effects
from form_invariance.stages.neuron_sets import CIRCUIT
from form_invariance.stages.overlap.differing import differing_table
from form_invariance.stages.overlap.table import OPERATORS_OWN
from form_invariance.stages.transfer.contrasts import contrast_table as transfer_contrasts
from form_invariance.stages.transfer.names import DRAWN

FEWEST_DRAWS = 3
"""Of a control: one takes the circuit's place, and the others must have a spread."""
TRIALS = 40
"""Of a null that is drawn."""

Trial = dict[str, object]


def _drawn(rows: pd.DataFrame, column: str) -> Iterator[tuple[str, int]]:
    """The kinds that were drawn often enough, and each of their draws."""
    draws = rows[rows["seed"] >= 0].groupby(column)["seed"].unique()
    for kind, seeds in draws.items():
        if len(seeds) >= FEWEST_DRAWS:
            yield from ((str(kind), int(seed)) for seed in sorted(seeds))


def ablation_trials(
    cells: Mapping[tuple[str, ...], tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]], resamples: int, seed: int
) -> Iterator[Trial]:
    """A draw of a control in the circuit's place, compared with the other draws of its kind.

    Args:
        cells: interventions table, table by prompt and dataset table of every cell (format, operator).
    """
    each = [set(_drawn(prompts, "neurons")) for _, prompts, _ in cells.values()]
    for kind, draw in sorted(set.intersection(*each)):
        compared = {}
        for cell, (summary, prompts, dataset) in cells.items():
            kept = prompts[prompts["neurons"].isin(["none", kind])]
            chosen = (kept["neurons"] == kind) & (kept["seed"] == draw)
            kept = kept.assign(neurons=kept["neurons"].mask(chosen, CIRCUIT))
            compared[cell] = cell_of(summary, kept, dataset)
        table = overall(intervention_contrasts(compared, resamples, seed))
        for row in table[table["intervention"].isin(ASKED)].to_dict("records"):
            yield {
                "question": ASKED[row["intervention"]],
                "metric": row["metric"],
                "k": row["k"],
                "null": "a control is the circuit",
                "verdict": row["verdict"],
            }


def transfer_trials(transfer: pd.DataFrame, pairs: pd.DataFrame, resamples: int, seed: int) -> Iterator[Trial]:
    """Other neurons in the circuit's place, permuted donors, and two donors that change places.

    Args:
        transfer: transfer tables with the columns operator and direction.
        pairs: tables by pair with the column operator.
    """

    def verdicts(changed: pd.DataFrame, questions: Mapping[str, str], null: str) -> Iterator[Trial]:
        table = overall(transfer_contrasts(transfer, changed, resamples, seed, questions))
        for row in table.to_dict("records"):
            names = {"question": questions[row["contrast"]], "metric": "rate", "null": null}
            yield {**names, "k": row["k"], "verdict": row["verdict"]}

    for kind, draw in _drawn(pairs[pairs["condition"].isin(DRAWN)], "condition"):
        kept = pairs[pairs["condition"] == kind]
        kept = kept.assign(condition=kept["condition"].mask(kept["seed"] == draw, "matched"))
        yield from verdicts(kept, {"matched_minus_baseline": "repaired"}, "a control is the circuit")
    both = pairs[pairs["condition"].isin(["matched", "same_answer"])]
    keys = ["operator", "donor", "target", "k", "a", "b"]
    for trial in range(TRIALS):
        rng = generator(seed, "nulls", trial)
        # A donor's answer comes out as often as that of another pair's donor.
        lucky = rng.random(len(pairs)) < pairs["permuted_answer"].to_numpy()
        same = {"imposed": "imposed", "interchange": "interchange"}
        yield from verdicts(pairs.assign(donor_answer=lucky), same, "permuted donors")
        place = both.groupby(keys).ngroup()
        turned = (rng.random(int(place.max()) + 1) < 0.5)[place] if len(both) else np.zeros(0, dtype=bool)
        names = both["condition"].map({"matched": "same_answer", "same_answer": "matched"})
        changed = both.assign(condition=both["condition"].mask(turned, names))
        yield from verdicts(changed, {"matched_minus_same_answer": "beyond_the_answer"}, "donors change places")


def overlap_trials(
    cells: Mapping[tuple[str, str], Effects], ks: list[int], resamples: int, seed: int
) -> Iterator[Trial]:
    """Formats whose operators are exchanged, so that no two formats have the same operator under one name.

    Args:
        cells: effects by format and operator.
    """
    formats, operators = (list(dict.fromkeys(cell[part] for cell in cells)) for part in (0, 1))
    if len(operators) < len(formats):
        return
    for trial in range(len(operators) - 1):
        shuffled = generator(seed, "nulls-operators", trial).permutation(operators).tolist()
        # Each format's operators are moved on by another number of places: no name means the same operator twice.
        changed = {
            (name, operator): cells[name, shuffled[(place + step) % len(operators)]]
            for step, name in enumerate(formats)
            for place, operator in enumerate(operators)
        }
        table = differing_table(changed, ks, resamples, seed)
        whole = table[(table["quantity"] == OPERATORS_OWN) & (table["operators"] == ALL)]
        for row in whole.to_dict("records"):
            names = {"question": "same", "metric": "jaccard beyond operator", "null": "three different operators"}
            yield {**names, "k": row["k"], "verdict": verdict(row["low"], row["high"])}


def rates(trials: list[Trial]) -> pd.DataFrame:
    """How many trials of each question, metric, null and k there are, and the shares of their verdicts."""
    keys = ["question", "metric", "null", "k"]
    table = pd.DataFrame(trials)
    words = {word: table["verdict"].eq(word) for word in ("yes", "no", "undecided", "undefined")}
    grouped = table.assign(trials=1, **words).groupby(keys, sort=False)
    return grouped.agg({"trials": "sum", **dict.fromkeys(words, "mean")}).reset_index()
