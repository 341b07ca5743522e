"""What a Jaccard means: the pipeline's results on models whose shared part is known (method, section 11).

The models are constructed: a known part of the neurons that carry the answer is the same in every format. The
shared part that the pipeline finds, from the Jaccard index and the noise of the rankings, is compared with it.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from form_invariance.stages.calibration.construction import PLANTED, STRATUM, write_model
from form_invariance.stages.calibration.estimate import Overlap, estimate, jaccard_of, overlap_at, shared_part
from form_invariance.stages.calibration.pipeline import KS, Results, run_stages
from form_invariance.stages.calibration.table import EARLY, LATE
from form_invariance.stages.contrasts import ALL, overall
from form_invariance.stages.planted.construction import TEMPLATES
from form_invariance.stages.transfer.names import NONE
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.progress import track

SHARES = tuple(part / STRATUM for part in range(STRATUM + 1))
SEEDS = 5
"""Models of each share."""

Row = dict[str, object]
Values = tuple[float, float, float]


def calibration_table(seed: int) -> pd.DataFrame:
    """The calibration table: `SEEDS` models of every share, and one with late failures that shares everything."""
    models = [(share, EARLY, seed + number) for share, number in product(SHARES, range(SEEDS))]
    models.append((1.0, LATE, seed))
    return pd.concat(
        [measured(*given) for given in track(models, len(models), "constructed models")], ignore_index=True
    )


def measured(share: float, failures: str, seed: int) -> pd.DataFrame:
    """The calibration table's rows of one model."""
    with TemporaryDirectory(prefix="constructed-") as name:
        model = Path(name) / "model"
        write_model(model, share, seed, late_failures=failures == LATE)
        results = run_stages(model, seed)
    rows = [row for k in KS for row in _overlap_rows(results, share, k)]
    table = pd.DataFrame([*rows, *_effect_rows(results), _correlation(results, share)])
    known = table["truth"].notna() & table["low"].notna()
    inside = (table["low"] <= table["truth"]) & (table["truth"] <= table["high"])
    return table.assign(share=share, failures=failures, seed=seed, covered=np.where(known, inside, np.nan))


def _overlap_rows(results: Results, share: float, k: int) -> Iterator[Row]:
    """What the overlap says at one circuit size."""
    overlap = overlap_of(results.overlap, results.reliability, k)
    yield _row(k, "jaccard", overlap.jaccard, jaccard_of(share, overlap.formats))
    value, low, high = (shared_part(jaccard, overlap.formats) for jaccard in overlap.jaccard)
    yield _row(k, "uncorrected", (value, low, high), share)
    yield _row(k, "shared_part", estimate(overlap), share)
    others = {"chance": overlap.chance, "across_parts": overlap.across, "ceiling": overlap.within[0]}
    for name, expected in others.items():
        yield _row(k, name, (expected, np.nan, np.nan))


def _effect_rows(results: Results) -> Iterator[Row]:
    """What keep-only, knockout, exchange and transfer do at the planted size."""
    for row in overall(results.interventions).to_dict("records"):
        measure = f"{row['intervention']}_{row['metric']}"
        yield _row(PLANTED, measure, (row["difference"], row["low"], row["high"]))
    for row in overall(results.exchange).to_dict("records"):
        measure = f"exchange_{row['metric'].replace(' ', '_')}"
        yield _row(PLANTED, measure, (row["ratio"], row["ratio_low"], row["ratio_high"]))
    contrasts = overall(results.transfer)
    moved = contrasts[contrasts["contrast"] == "matched_minus_baseline"].iloc[0]
    yield _row(PLANTED, "transfer", (moved["difference"], moved["low"], moved["high"]))


def overlap_of(overlap: pd.DataFrame, reliability: pd.DataFrame, k: int) -> Overlap:
    """What the estimate needs of the overlap of all formats at one k."""
    every = overlap[(overlap["layer"] == EVERY_LAYER) & (overlap["formats"] == "+".join(TEMPLATES))]
    return overlap_at(every[every["k"] == k].iloc[0], reliability[reliability["k"] == k])


def _correlation(results: Results, share: float) -> Row:
    """The formats' corrected correlation of effects, which has no circuit size."""
    every = results.correlation[results.correlation["layer"] == EVERY_LAYER]
    row = every[(every["formats"] == ALL) & (every["operator"] != ALL)].iloc[0]
    return _row(NONE, "correlation", (row["corrected"], row["low"], row["high"]), share)


def _row(k: int, measure: str, values: Values, truth: float = np.nan) -> Row:
    value, low, high = values
    return {"k": k, "measure": measure, "value": value, "low": low, "high": high, "truth": truth}
