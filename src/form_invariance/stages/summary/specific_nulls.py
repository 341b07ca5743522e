"""How often circuits are called specific, or exchangeable, where the truth is known (method, section 15)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.contrasts import overall, problems_of, resampled, resampling
from form_invariance.stages.controls import NOT_DRAWN, NeuronSet
from form_invariance.stages.neuron_sets import BEST_IN
from form_invariance.stages.questions import SERVES
from form_invariance.stages.specificity.contrasts import contrasts_table
from form_invariance.stages.specificity.damages import KNOCKOUT, Damages
from form_invariance.stages.summary.compute import exchanged, specific
from form_invariance.stages.summary.nulls import TRIALS, Trial

_SET = ["operator", "k", "neurons", "seed"]

Lost = Mapping[tuple[str, str], pd.DataFrame]
"""By format and task: answers lost by every set (rows, named by `_SET`) on every problem (columns a, b)."""


def lost_by_cell(prompts: pd.DataFrame) -> Lost:
    """The cells of a specificity_prompts table."""
    return {
        (str(name), str(task)): rows.pivot(index=_SET, columns=["a", "b"], values="lost").astype(float)
        for (name, task), rows in prompts.groupby(["format", "task"], sort=False)
    }


def relabelled(lost: Lost, rng: np.random.Generator) -> Lost:
    """On every problem the operators' circuits, with their controls, change places at random.

    That one circuit costs more than another one is no false yes, so whole circuits do not change places. On a
    problem they do so in all formats alike: what the formats have in common stays.
    """
    drawn: dict[tuple[str, object], np.ndarray] = {}
    found = {}
    for (name, task), rows in lost.items():
        operators = rows.index.unique("operator").tolist()
        for problem in rows.columns:
            drawn.setdefault((task, problem), rng.random(len(operators)))
        keys = np.stack([drawn[task, problem] for problem in rows.columns], axis=1)  # (operators, P)
        found[name, task] = pd.concat([_permuted(own, keys, operators) for _, own in rows.groupby("k")])
    return found


def _permuted(rows: pd.DataFrame, keys: np.ndarray, operators: Sequence[str]) -> pd.DataFrame:
    """The operators of one k, in the order of the keys (operators, P) on every problem; sets that all have."""
    tables = {str(operator): own.droplevel("operator") for operator, own in rows.groupby("operator")}
    present = [place for place, operator in enumerate(operators) if operator in tables]
    names = [operators[place] for place in present]
    every = pd.concat(tables.values()).groupby(level=[0, 1, 2]).size()
    common = every.index[every == len(tables)]
    blocks = np.stack([tables[name].loc[common] for name in names])  # (operators, sets, P)
    changed = np.take_along_axis(blocks, keys[present].argsort(0)[:, None], axis=0)
    parts = [pd.DataFrame(own, common, rows.columns) for own in changed]
    return pd.concat(parts, keys=names, names=["operator"])


def thinned(lost: Lost, rng: np.random.Generator) -> Lost:
    """The other formats' best neurons cost what the format's own cost, but for a random part of the problems.

    The part is the same in all formats that ask a problem.
    """
    kept: dict[tuple[str, object], bool] = {}
    found = {}
    for (name, task), rows in lost.items():
        for problem in rows.columns:
            kept.setdefault((task, problem), bool(rng.random() < SERVES))
        part = np.array([kept[task, problem] for problem in rows.columns])
        values, places = rows.to_numpy(), {label: place for place, label in enumerate(rows.index)}
        changed = values.copy()
        for (operator, k, neurons, _), place in places.items():
            own = places.get((operator, k, BEST_IN + name, NOT_DRAWN))
            if neurons.startswith(BEST_IN) and neurons != BEST_IN + name and own is not None:
                changed[place] = values[own] * part
        found[name, task] = pd.DataFrame(changed, rows.index, rows.columns)
    return found


def _contrasts(lost: Lost, operators: Sequence[str], resamples: int, seed: int) -> pd.DataFrame:
    """The specificity_contrasts of knockouts, by accuracy."""
    damages, sets = [], {}
    for (name, task), rows in lost.items():
        values = rows.to_numpy()
        problems = problems_of(task, *(rows.columns.get_level_values(one).to_numpy() for one in ("a", "b")))
        means = resampled(values, resampling(problems, resamples, seed))
        measured = ({"accuracy": some} for some in (values, values, means))
        damages.append(Damages(name, task, problems, "", KNOCKOUT, *measured))
        one_neuron = np.ones(1, dtype=bool)
        sets[name] = [NeuronSet(dict(zip(_SET, label, strict=True)), one_neuron) for label in rows.index]
    return contrasts_table(damages, sets, operators)


def specificity_trials(prompts: pd.DataFrame, resamples: int, seed: int) -> Iterator[Trial]:
    """Circuits that are of no operator, and formats whose circuits serve others exactly as well as is asked.

    Args:
        prompts: specificity_prompts table.
    """
    lost = lost_by_cell(prompts)
    operators = list(dict.fromkeys(task for _, task in lost))
    nulls = {
        "operators relabelled": (relabelled, specific),
        "a fifth of the losses is missing": (thinned, exchanged),
    }
    for trial in range(TRIALS):
        for null, (change, asked) in nulls.items():
            rng = generator(seed, "nulls-specificity", null, trial)
            table = asked(_contrasts(change(lost, rng), operators, resamples, seed))
            for row in overall(table).to_dict("records"):
                names = {name: row[name] for name in ("question", "metric", "k", "verdict")}
                yield {**names, "null": null}
