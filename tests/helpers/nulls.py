"""The questions asked again of tables in which the truth is known: nothing is to be found, or it is the margin.

A trial is a question, its metric, its null, a circuit size and the verdict over all operators.
"""

from functools import partial

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.contrasts import contrasts_table
from form_invariance.beyond.specificity.damages import KEEP_ONLY, KNOCKOUT, Damages
from form_invariance.beyond.specificity.table import CONTROL_OF, CONTROLS, OWN_BEST
from form_invariance.beyond.specificity.verdicts import ratios, specific
from form_invariance.experiment.contrasts import overall, problems_of, resampled, resampling, strongest
from form_invariance.experiment.controls import NOT_DRAWN, NeuronSet
from form_invariance.experiment.intervention_kinds import ASKED
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT
from form_invariance.experiment.questions import DIFFERENCE, SERVES
from form_invariance.randomness import generator
from form_invariance.stages.interventions.contrasts import cell_of
from form_invariance.stages.interventions.contrasts import contrast_table as intervention_contrasts
from form_invariance.stages.transfer.contrasts import contrast_table as transfer_contrasts
from form_invariance.stages.transfer.names import DRAWN

TRIALS = 40
"""Of a null that is drawn."""
DONORS = {
    "matched_minus_same_answer": ("beyond_the_answer", "matched", "same_answer", "donors change places"),
    "matched_minus_copied_answer": ("beyond_the_answer", "matched", "copied_answer", "copies change places"),
    "interchange_minus_copied": ("interchange", "interchange", "copied_other", "copies change places"),
}
"""By contrast of transfer: its question, the two conditions, and what its null is called."""
SET = ["operator", "k", "neurons", "seed"]
OF_BEST = [kind + CONTROL_OF + OWN_BEST for kind in CONTROLS]
"""The controls of a format's best neurons."""
COPIED = "copying"
"""A task whose answer is a number of the prompt."""


def rates(trials):
    """How many trials of each question, metric and null there are, and the shares of their verdicts."""
    table = pd.DataFrame(trials)
    words = {word: table["verdict"].eq(word) for word in ("yes", "no", "undefined")}
    grouped = table.assign(trials=1, **words).groupby(["question", "metric", "null"], sort=False)
    return grouped.agg({"trials": "sum", **dict.fromkeys(words, "mean")})


def _drawn(rows, column):
    """Each draw of the kinds that have three or more: one takes the circuit's place, the others have a spread."""
    draws = rows[rows["seed"] >= 0].groupby(column)["seed"].unique()
    return sorted((kind, seed) for kind, seeds in draws.items() if len(seeds) >= 3 for seed in seeds)


def ablation_trials(cells, resamples, seed):
    """A draw of a control in the circuit's place; cells: interventions, their prompts and dataset by cell."""
    each = [set(_drawn(prompts, "neurons")) for _, prompts, _ in cells.values()]
    for kind, draw in sorted(set.intersection(*each)):
        compared = {}
        for cell, (summary, prompts, dataset) in cells.items():
            kept = prompts[prompts["neurons"].isin(["none", kind])]
            chosen = (kept["neurons"] == kind) & (kept["seed"] == draw)
            compared[cell] = cell_of(summary, kept.assign(neurons=kept["neurons"].mask(chosen, CIRCUIT)), dataset)
        table = overall(intervention_contrasts(compared, resamples, seed))
        for row in table[table["intervention"].isin(ASKED)].to_dict("records"):
            names = {"question": ASKED[row["intervention"]], "null": "a control is the circuit"}
            yield {**names, **{name: row[name] for name in ("metric", "k", "verdict")}}


def transfer_trials(transfer, pairs, resamples, seed):
    """Other neurons in the circuit's place, permuted donors, and two donors that change places."""

    def verdicts(changed, questions, null):
        for row in overall(transfer_contrasts(transfer, changed, resamples, seed, questions)).to_dict("records"):
            names = {"question": questions[row["contrast"]], "metric": "rate", "null": null}
            yield {**names, "k": row["k"], "verdict": row["verdict"]}

    for kind, draw in _drawn(pairs[pairs["condition"].isin(DRAWN)], "condition"):
        kept = pairs[pairs["condition"] == kind]
        kept = kept.assign(condition=kept["condition"].mask(kept["seed"] == draw, "matched"))
        yield from verdicts(kept, {"matched_minus_baseline": "repaired"}, "a control is the circuit")
    for trial in range(TRIALS):
        rng = generator(seed, "nulls", trial)
        # A donor's answer comes out as often as that of another pair's donor.
        lucky = rng.random(len(pairs)) < pairs["permuted_answer"].to_numpy()
        same = {"imposed": "imposed", "interchange": "interchange"}
        yield from verdicts(pairs.assign(donor_answer=lucky), same, "permuted donors")
        for contrast, (question, first, second, null) in DONORS.items():
            both = pairs[pairs["condition"].isin([first, second])]
            place = both.groupby(["operator", "donor", "target", "k", "a", "b"]).ngroup()
            turned = (rng.random(int(place.max()) + 1) < 0.5)[place] if len(both) else np.zeros(0, dtype=bool)
            names = both["condition"].map({first: second, second: first})
            changed = both.assign(condition=both["condition"].mask(turned, names))
            yield from verdicts(changed, {contrast: question}, null)


def lost_by_cell(prompts, intervention, metric):
    """What every set (rows, named by `SET`) costs on every problem (columns a, b), by format and task."""
    chosen = prompts[prompts["intervention"] == intervention]
    value = {"accuracy": "lost", "probability": "probability"}[metric]
    return {
        cell: rows.pivot(index=SET, columns=["a", "b"], values=value).astype(float)
        for cell, rows in chosen.groupby(["format", "task"], sort=False)
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
    control = draws.get(strongest(draws, sign))
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
                floor = _strongest({kind: values[places[of == kind]] for kind in CONTROLS})
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


def contrasts_of(lost, intervention, metric, operators, resamples, seed):
    """The specificity_contrasts of one intervention, by one metric."""
    damages, sets = [], {}
    for (name, task), rows in lost.items():
        values = rows.to_numpy()
        problems = problems_of(task, *(rows.columns.get_level_values(one).to_numpy() for one in ("a", "b")))
        weights = resampling(problems, resamples, seed)
        measured = ({metric: some} for some in (values, values, resampled(values, weights)))
        damages.append(Damages(name, task, problems, "", intervention, *measured, weights))
        one_neuron = np.ones(1, dtype=bool)
        sets[name] = [NeuronSet(dict(zip(SET, label, strict=True)), one_neuron) for label in rows.index]
    return contrasts_table(damages, sets, operators, [task for _, task in lost if task == COPIED][:1])


def asked(question, difference=False):
    """The rows of a question that a ratio decides, or of its difference."""

    def rows(contrasts):
        table = ratios(contrasts)
        return table[(table["question"] == question) & (table["metric"].str.endswith(DIFFERENCE) == difference)]

    return rows


NULLS = {
    "operators relabelled": (relabelled, specific, KNOCKOUT, ["accuracy", "probability"]),
    "operators relabelled, exchanged": (relabelled, asked("exchange", True), KNOCKOUT, ["probability"]),
    "a fifth of the losses is missing": (thinned, asked("exchange"), KNOCKOUT, ["accuracy", "probability"]),
    "a fifth of the gains is missing": (partial(thinned, sign=-1), asked("exchange"), KEEP_ONLY, ["probability"]),
    "controls are the best": (placebo, asked("exchange"), KNOCKOUT, ["probability"]),
    "controls are the best, kept": (placebo, asked("exchange"), KEEP_ONLY, ["probability"]),
    "copying loses a fifth": (copying, asked("computed"), KNOCKOUT, ["accuracy", "probability"]),
}
"""By name: what makes it true, the question, and the intervention and the metrics that it is asked of."""


def specificity_trials(prompts, resamples, seed):
    """Circuits that are of no operator, and formats whose circuits serve others exactly as well as is asked."""
    operators = list(dict.fromkeys(prompts["operator"]))
    prompts = prompts[prompts["task"].isin(operators)]
    for null, (change, verdicts, intervention, metrics) in NULLS.items():
        for metric in metrics:
            cells = lost_by_cell(prompts, intervention, metric)
            for trial in range(TRIALS):
                changed = change(cells, generator(seed, "nulls-specificity", null, trial))
                table = verdicts(contrasts_of(changed, intervention, metric, operators, resamples, seed))
                for row in overall(table).to_dict("records"):
                    yield {**{name: row[name] for name in ("question", "metric", "k", "verdict")}, "null": null}
