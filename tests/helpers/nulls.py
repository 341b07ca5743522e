"""The questions asked again of tables in which the truth is known: nothing is to be found, or it is the margin.

A trial is a question, its metric, its null, a circuit size and the verdict over all operators.
"""

from functools import partial

import measured
import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import strongest
from form_invariance.experiment.contrasts.questions import QUESTIONS, SERVES
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.verdicts import deciding_rows
from form_invariance.experiment.controls import NOT_DRAWN
from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    CIRCUIT,
    CONTROL_OF,
    CONTROLS,
    FAIR,
    MATCHED,
    OWN_BEST,
    PART_OF_BEST,
)
from form_invariance.randomness import generator

TRIALS = 40
"""Trials of each null that is drawn at random."""
DONORS = {
    ("beyond_the_answer", "rate"): ("matched", "same_answer", "donors change places"),
    ("beyond_the_answer", "rate beyond copied"): ("matched", "copied_answer", "copies change places"),
    ("interchange", "beyond copied"): ("interchange", "copied_other", "copies change places"),
}
"""The two conditions of transfer and the null's name, by question and metric."""
SET = ["operator", "k", "neurons", "seed"]
OF_BEST = [kind + CONTROL_OF + OWN_BEST for kind in FAIR]
"""The controls of a format's best neurons."""
COPIED = "copying"
"""A task whose answer is a number of the prompt."""


def rates(trials):
    """How many trials of each question, metric and null there are, and the shares of their verdicts."""
    table = pd.DataFrame(trials)
    words = {word: table["verdict"].eq(word) for word in ("yes", "no", "undefined")}
    grouped = table.assign(trials=1, **words).groupby(["question", "metric", "null"], sort=False)
    return grouped.agg({"trials": "sum", **dict.fromkeys(words, "mean")})


def verdict_rows(table, asked, resamples, seed, copying=()):
    """The rows that decide questions by their metrics, from a table by prompt."""
    parts = {key: QUESTIONS[key[0]].parts[key[1]] for key in asked}
    names = dict.fromkeys(part.contrast for part in parts.values())
    ks = sorted(set(table["k"]) - {0, -1})
    contrasts = measured.contrasts_of(table, names, ks, resamples, seed, copying)
    for (question, metric), part in parts.items():
        yield deciding_rows(part, contrasts).assign(question=question, metric=metric)


def verdicts(table, asked, null, resamples, seed, copying=()):
    """The trials of questions and their metrics on a table by prompt."""
    for rows in verdict_rows(table, asked, resamples, seed, copying):
        for row in overall(rows).to_dict("records"):
            yield {**{name: row[name] for name in ("question", "metric", "k", "verdict")}, "null": null}


def _drawn(rows):
    """Each draw of the kinds that have three or more: one takes the circuit's place, the others have a spread."""
    draws = rows[rows["seed"] >= 0].groupby("neurons")["seed"].unique()
    return sorted((kind, seed) for kind, seeds in draws.items() if len(seeds) >= 3 for seed in seeds)


def _in_the_circuits_place(table):
    """Tables in which a draw of a control is the circuit, and the others of its kind are the only control."""
    cells = [set(_drawn(rows)) for _, rows in table[table["k"] > 0].groupby(["format", "donor", "operator"])]
    for kind, draw in sorted(set.intersection(*cells)):
        kept = table[table["neurons"].isin(["none", kind])]
        chosen = (kept["neurons"] == kind) & (kept["seed"] == draw)
        yield kept.assign(neurons=kept["neurons"].mask(chosen, CIRCUIT), seed=kept["seed"].mask(chosen, NOT_DRAWN))


def ablation_trials(table, resamples, seed):
    """A draw of a control in the circuit's place; the tables by prompt of interventions."""
    asked = [(name, metric) for name in ("sufficient", "necessary") for metric in QUESTIONS[name].parts]
    asked.remove(("necessary", LAST))
    table = table[(table["positions"] == "all") & (table["means"] == "format")]
    for changed in _in_the_circuits_place(table):
        yield from verdicts(changed, asked, "a control is the circuit", resamples, seed)


def transfer_trials(pairs, resamples, seed):
    """Other neurons in the circuit's place, permuted donors, and two donors that change places."""
    drawn = pairs[(pairs["intervention"] == "matched") & pairs["neurons"].isin(CONTROLS)]
    for changed in _in_the_circuits_place(drawn):
        yield from verdicts(changed, [("repaired", "rate")], "a control is the circuit", resamples, seed)
    for trial in range(TRIALS):
        rng = generator(seed, "nulls", trial)
        # The outputs are a donor's answer as often as the answer of another pair's donor.
        lucky = (rng.random(len(pairs)) < pairs["permuted_answer"].to_numpy()).astype(float)
        lucky = pairs.assign(donor_answer=np.where(pairs["permuted_answer"].isna(), np.nan, lucky))
        asked = [("imposed", "rate"), ("interchange", "rate")]
        yield from verdicts(lucky, asked, "permuted donors", resamples, seed)
        for key, (first, second, null) in DONORS.items():
            both = pairs[pairs["intervention"].isin([first, second]) & (pairs["neurons"] == CIRCUIT)]
            if both.empty:
                continue
            place = both.groupby(["operator", "donor", "format", "k", "a", "b"]).ngroup()
            turned = (rng.random(int(place.max()) + 1) < 0.5)[place]
            names = both["intervention"].map({first: second, second: first})
            changed = both.assign(intervention=both["intervention"].mask(turned, names))
            yield from verdicts(changed, [key], null, resamples, seed)


def lost_by_cell(prompts, intervention, metric):
    """What every set (rows, named by `SET`) costs on every problem (columns a, b), by format and task."""
    value = {"accuracy": "correct"}.get(metric, metric)
    prompts = prompts.astype({value: float})
    before = prompts[prompts["intervention"] == "good"].set_index(["format", "task", "index"])[value]
    chosen = prompts[prompts["intervention"] == intervention]
    lost = before.loc[list(zip(chosen["format"], chosen["task"], chosen["index"], strict=True))].to_numpy()
    return {
        cell: rows.pivot(index=SET, columns=["a", "b"], values="lost")
        for cell, rows in chosen.assign(lost=lost - chosen[value]).groupby(["format", "task"], sort=False)
    }


def relabelled(lost, rng):
    """On every problem the operators' circuits, with their controls, change places, in all formats alike."""
    drawn, found = {}, {}
    for (name, task), rows in lost.items():
        operators = rows.index.unique("operator").tolist()
        for problem in rows.columns:
            drawn.setdefault((task, problem), rng.random(len(operators)))
        keys = np.stack([drawn[task, problem] for problem in rows.columns], axis=1)  # (operators, P)
        found[name, task] = pd.concat([_permuted(own, keys, operators) for _, own in rows.groupby("k")])
    return found


def _permuted(rows, keys, operators):
    """The operators of one k, in the order of the keys (operators, P) on every problem; sets that all have."""
    tables = {operator: own.droplevel("operator") for operator, own in rows.groupby("operator")}
    present = [place for place, operator in enumerate(operators) if operator in tables]
    names = [operators[place] for place in present]
    every = pd.concat(tables.values()).groupby(level=[0, 1, 2]).size()
    common = every.index[every == len(tables)]
    blocks = np.stack([tables[name].loc[common] for name in names])  # (operators, sets, P)
    changed = np.take_along_axis(blocks, keys[present].argsort(0)[:, None], axis=0)
    return pd.concat([pd.DataFrame(own, common, rows.columns) for own in changed], keys=names, names=["operator"])


def thinned(lost, rng, sign=1):
    """The other formats' best neurons do what the format's own do, but for a random part of the problems.

    There they do what the strongest control does (of keep-only, where `sign` is -1, the one that loses least).
    """
    kept, found = {}, {}
    for (name, task), rows in lost.items():
        for problem in rows.columns:
            kept.setdefault((task, problem), rng.random() < SERVES)
        part = np.array([kept[task, problem] for problem in rows.columns])
        values, kinds = rows.to_numpy(), rows.index.get_level_values("neurons")
        changed = values.copy()
        for places in rows.groupby(level=["operator", "k"]).indices.values():
            of = kinds[places]
            own, best = of == BEST_IN + name, of.str.startswith(BEST_IN)
            if own.any():
                floor = _strongest({kind: values[places[of == kind]] for kind in OF_BEST}, sign)
                changed[places[best & ~own]] = np.where(part, values[places[own]], floor)
        found[name, task] = pd.DataFrame(changed, rows.index, rows.columns)
    return found


def _strongest(draws, sign=1):
    """What the strongest control (draws, P) does on every problem; NaN without one."""
    control = draws.get(strongest({kind: sign * values.mean() for kind, values in draws.items() if len(values)}))
    return np.nan if control is None else control.mean(0)


def copying(lost, rng):
    """A task that copies loses what the own operator loses, on exactly the share of problems where it may."""
    found = dict(lost)
    for name in dict.fromkeys(name for name, _ in lost):
        tasks = {task: rows for (form, task), rows in lost.items() if form == name}
        size, parts = min(rows.shape[1] for rows in tasks.values()), []
        for task, rows in tasks.items():
            own = rows[rows.index.get_level_values("operator") == task]
            own = own.iloc[:, rng.integers(own.shape[1], size=size)]
            values, kinds = own.to_numpy().copy(), own.index.get_level_values("neurons")
            for places in own.groupby(level="k").indices.values():
                of = kinds[places]
                floor = _strongest({kind: values[places[of == kind]] for kind in MATCHED})
                circuit = places[of == CIRCUIT]
                values[circuit] = np.where(rng.random(size) < SERVES, floor, values[circuit])
            parts.append(pd.DataFrame(values, own.index))
        columns = pd.MultiIndex.from_product([[NOT_DRAWN], range(size)], names=["a", "b"])
        found[name, COPIED] = pd.concat(parts).set_axis(columns, axis=1).reindex(rows.index)
    return found


def placebo(lost, rng):
    """Draws of one kind of control are each format's best neurons, and no longer controls."""
    kind, found = OF_BEST[rng.integers(len(OF_BEST))], {}
    best = list(dict.fromkeys(BEST_IN + name for name, _ in lost))
    draws = {seed for rows in lost.values() for *_, neurons, seed in rows.index if neurons == kind}
    taken = dict(zip(rng.permutation(sorted(draws)).tolist(), best, strict=False))
    for cell, rows in lost.items():
        kept = rows[~rows.index.get_level_values("neurons").isin(best)]
        labels = [
            (*size, taken[seed], NOT_DRAWN) if neurons == kind and seed in taken else (*size, neurons, seed)
            for *size, neurons, seed in kept.index
        ]
        found[cell] = kept.set_axis(pd.MultiIndex.from_tuples(labels, names=SET))
    return found


def table_of(lost, intervention):
    """The table by prompt of what sets cost; the unmodified model has zeros."""
    parts = []
    for (name, task), rows in lost.items():
        nobody = pd.MultiIndex.from_tuples([(task, 0, "none", NOT_DRAWN)], names=SET)
        nothing = pd.DataFrame(np.zeros((1, rows.shape[1])), nobody, rows.columns)
        columns = rows.columns.to_frame(index=False).reset_index()
        for kind, values in ((intervention, -rows), ("good", nothing)):
            wide = values.set_axis(columns["index"], axis=1)
            long = wide.melt(ignore_index=False, var_name="index", value_name="probability").reset_index()
            long = long.merge(columns, on="index").dropna(subset="probability")
            alike = dict.fromkeys(("correct", "margin"), long["probability"])
            parts.append(long.assign(format=name, task=task, intervention=kind, **alike))
    return measured.rows_of(pd.concat(parts, ignore_index=True))


EXCHANGED = [("exchange", metric) for metric in ("probability", "accuracy")]
KEPT = [("exchange", "probability kept")]
SPECIFIC = [("specific", metric) for metric in QUESTIONS["specific"].parts]
COMPUTED = [("computed", metric) for metric in QUESTIONS["computed"].parts]
LAST = "probability at the last token"
NULLS = {
    "operators relabelled": (relabelled, "knockout", SPECIFIC),
    "operators relabelled, exchanged": (relabelled, "knockout", [("exchange", "probability beyond operator")]),
    "a fifth of the losses is missing": (thinned, "knockout", EXCHANGED),
    "a fifth of the gains is missing": (partial(thinned, sign=-1), "keep_only", KEPT),
    "controls are the best": (placebo, "knockout", EXCHANGED[:1]),
    "controls are the best, kept": (placebo, "keep_only", KEPT),
    "copying loses a fifth": (copying, "knockout", COMPUTED),
}
"""What makes a null true, the intervention, and the questions and metrics that are asked, by the null's name."""


def dose_trials(prompts, resamples, seed):
    """Circuits that are of no operator, and formats whose circuits serve others exactly as well as is asked.

    Besides, a draw of a control, or of the own best, in the circuit's place.
    """
    knockout = prompts[prompts["intervention"].isin(["knockout", "good"])]
    for kind, asked in ((FAIR, ("necessary", LAST)), ([PART_OF_BEST], ("shared", "probability"))):
        own = knockout[(knockout["operator"] == knockout["task"]) & knockout["neurons"].isin(["none", *kind])]
        for changed in _in_the_circuits_place(own):
            yield from verdicts(changed, [asked], "a control is the circuit", resamples, seed)
    for null, (change, intervention, every) in NULLS.items():
        for metric in ("probability", "accuracy", "margin"):
            asked = [key for key in every if QUESTIONS[key[0]].parts[key[1]].of == metric]
            cells = lost_by_cell(prompts, intervention, metric)
            for trial in range(TRIALS if asked else 0):
                changed = table_of(change(cells, generator(seed, "nulls-specificity", null, trial)), intervention)
                yield from verdicts(changed, asked, null, resamples, seed, [COPIED])


def trials(tables, resamples, seed):
    """The trials of every question, from the tables by prompt by their kind."""
    yield from ablation_trials(tables["interventions_prompts"], resamples, seed)
    yield from transfer_trials(tables["transfer_pairs"], resamples, seed)
    yield from dose_trials(tables["dose_prompts"], resamples, seed)
