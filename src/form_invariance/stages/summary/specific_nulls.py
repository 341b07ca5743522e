"""How often circuits are called specific, or exchangeable, where the truth is known (method, section 15)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.contrasts import overall, problems_of, resampled, resampling, strongest
from form_invariance.stages.controls import NOT_DRAWN, NeuronSet
from form_invariance.stages.neuron_sets import BEST_IN
from form_invariance.stages.questions import SERVES
from form_invariance.stages.specificity.contrasts import contrasts_table
from form_invariance.stages.specificity.damages import KEEP_ONLY, KNOCKOUT, Damages
from form_invariance.stages.specificity.table import CONTROLS
from form_invariance.stages.specificity.verdicts import exchanged, specific
from form_invariance.stages.summary.nulls import TRIALS, Trial
from form_invariance.stages.verdicts import PRIMARY

_SET = ["operator", "k", "neurons", "seed"]

_MEASURED = {"accuracy": "lost", PRIMARY: "probability"}
"""Columns of the specificity_prompts table, by metric."""

Lost = Mapping[tuple[str, str], pd.DataFrame]
"""By format and task: what every set (rows, named by `_SET`) costs on every problem (columns a, b)."""


def lost_by_cell(prompts: pd.DataFrame, intervention: str, metric: str) -> Lost:
    """The cells of a specificity_prompts table."""
    chosen = prompts[prompts["intervention"] == intervention]
    return {
        (str(name), str(task)): rows.pivot(index=_SET, columns=["a", "b"], values=_MEASURED[metric]).astype(float)
        for (name, task), rows in chosen.groupby(["format", "task"], sort=False)
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


def thinned(lost: Lost, rng: np.random.Generator, sign: int = 1) -> Lost:
    """The other formats' best neurons do what the format's own do, but for a random part of the problems.

    There they do what the strongest control does. The part is the same in all formats that ask a problem.

    Args:
        sign: -1 for keep-only, where the strongest control loses least.
    """
    kept: dict[tuple[str, object], bool] = {}
    found = {}
    for (name, task), rows in lost.items():
        for problem in rows.columns:
            kept.setdefault((task, problem), bool(rng.random() < SERVES))
        part = np.array([kept[task, problem] for problem in rows.columns])
        values, kinds = rows.to_numpy(), rows.index.get_level_values("neurons")
        changed = values.copy()
        for places in rows.groupby(level=["operator", "k"]).indices.values():
            of = kinds[places]
            own, best = of == BEST_IN + name, of.str.startswith(BEST_IN)
            if own.any():
                floor = _strongest_control({kind: values[places[of == kind]] for kind in CONTROLS}, sign)
                changed[places[best & ~own]] = np.where(part, values[places[own]], floor)
        found[name, task] = pd.DataFrame(changed, rows.index, rows.columns)
    return found


def placebo(lost: Lost, rng: np.random.Generator) -> Lost:
    """Draws of one kind of control are each format's best neurons, and no longer controls."""
    kind, found = CONTROLS[rng.integers(len(CONTROLS))], {}
    best = list(dict.fromkeys(BEST_IN + name for name, _ in lost))
    draws = {seed for rows in lost.values() for _, _, neurons, seed in rows.index if neurons == kind}
    taken = dict(zip(rng.permutation(sorted(draws)).tolist(), best, strict=False))
    for cell, rows in lost.items():
        kept = rows[~rows.index.get_level_values("neurons").isin(best)]
        labels = [
            (*size, taken[seed], NOT_DRAWN) if neurons == kind and seed in taken else (*size, neurons, seed)
            for *size, neurons, seed in kept.index
        ]
        found[cell] = kept.set_axis(pd.MultiIndex.from_tuples(labels, names=_SET))
    return found


def _strongest_control(draws: Mapping[str, np.ndarray], sign: int) -> np.ndarray | float:
    """What the strongest control costs on every problem, the mean of its draws (draws, P); NaN without any."""
    chosen = draws.get(strongest(draws, sign))
    return np.nan if chosen is None else np.asarray(chosen.mean(0))


def contrasts_of(
    lost: Lost, intervention: str, metric: str, operators: Sequence[str], resamples: int, seed: int
) -> pd.DataFrame:
    """The specificity_contrasts of one intervention, by one metric."""
    damages, sets = [], {}
    for (name, task), rows in lost.items():
        values = rows.to_numpy()
        problems = problems_of(task, *(rows.columns.get_level_values(one).to_numpy() for one in ("a", "b")))
        means = resampled(values, resampling(problems, resamples, seed))
        measured = ({metric: some} for some in (values, values, means))
        damages.append(Damages(name, task, problems, "", intervention, *measured))
        one_neuron = np.ones(1, dtype=bool)
        sets[name] = [NeuronSet(dict(zip(_SET, label, strict=True)), one_neuron) for label in rows.index]
    return contrasts_table(damages, sets, operators)


_Null = tuple[Callable[[Lost, np.random.Generator], Lost], Callable[[pd.DataFrame], pd.DataFrame], str, list[str]]

_NULLS: dict[str, _Null] = {
    "operators relabelled": (relabelled, specific, KNOCKOUT, list(_MEASURED)),
    "a fifth of the losses is missing": (thinned, exchanged, KNOCKOUT, list(_MEASURED)),
    "a fifth of the gains is missing": (partial(thinned, sign=-1), exchanged, KEEP_ONLY, [PRIMARY]),
    "controls are the best": (placebo, exchanged, KNOCKOUT, [PRIMARY]),
    "controls are the best, kept": (placebo, exchanged, KEEP_ONLY, [PRIMARY]),
}
"""By name: what makes it true, the question, and the intervention and the metrics that it is asked of."""


def specificity_trials(prompts: pd.DataFrame, resamples: int, seed: int) -> Iterator[Trial]:
    """Circuits that are of no operator, and formats whose circuits serve others exactly as well as is asked.

    Args:
        prompts: specificity_prompts table.
    """
    operators = list(dict.fromkeys(prompts["task"]))
    for null, (change, asked, intervention, metrics) in _NULLS.items():
        for metric in metrics:
            cells = lost_by_cell(prompts, intervention, metric)
            for trial in range(TRIALS):
                changed = change(cells, generator(seed, "nulls-specificity", null, trial))
                table = asked(contrasts_of(changed, intervention, metric, operators, resamples, seed))
                for row in overall(table).to_dict("records"):
                    names = {name: row[name] for name in ("question", "metric", "k", "verdict")}
                    yield {**names, "null": null}
