"""The keep-only and knockout experiment of one cell: circuits, controls, faithfulness (method, section 7).

Keep-only: all late neurons outside a set take their mean activation at every position but BOS. Knockout: the
neurons of the set do. Faithfulness is the answer's normalised logit, from 0 for the fully ablated model to 1
for the unmodified one. The controls are as many neurons of each layer, drawn at random, or matched by variance
or effect.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import torch

from form_invariance.experiment.controls import (
    NOT_DRAWN,
    Draws,
    NeuronSet,
    circuit_set,
    controls,
    labels_of,
    masks_of,
    matching_values,
    with_half_means,
)
from form_invariance.experiment.intervene import Started, all_ablated, intervene, start, unmodified
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.measurements import FORMAT_MEANS, TEMPLATE_MEANS, UNMODIFIED, readout_rows
from form_invariance.experiment.neuron_sets import CIRCUIT, CONTROLS
from form_invariance.experiment.readout import Readout
from form_invariance.experiment.run import Run
from form_invariance.statistics import bootstrap_weights
from form_invariance.tables.progress import Progress

NEARLY_ZERO = 1e-3
"""A good - bad gap of the normalised logit below this leaves a prompt's faithfulness undefined."""


@dataclass(frozen=True)
class Choices:
    """The settings of a cell's interventions, apart from its circuits."""

    operator: str  # the formats of an operator share its controls
    draws: Draws
    resamples: int
    center: bool


def neuron_sets(
    circuits: Mapping[int, np.ndarray],
    halves: Mapping[str, Mapping[int, np.ndarray]],
    variance: np.ndarray,
    effects: np.ndarray,
    operator: str,
    draws: Draws,
) -> list[NeuronSet]:
    """The circuit of every k, whole and by halves of the train prompts, and its controls.

    A circuit without neurons has no controls.

    Args:
        circuits: mask of each k, bool, (late layers, m).
        halves: masks of each k by the name of a half.
        variance: variance of the last token's activations, (late layers, m).
        effects: mean indirect effects, (late layers, m).
    """
    values = matching_values(variance, effects)
    sets = []
    for k, members in circuits.items():
        sets.append(circuit_set(members, k))
        sets += [circuit_set(by_half[k], k, half) for half, by_half in halves.items()]
        sets += controls(members, k, CONTROLS if members.any() else (), values, draws, operator)
    return sets


def also_by_template(sets: Sequence[NeuronSet]) -> list[NeuronSet]:
    """The sets that are also tried with the template's means: every circuit, and one random control of each."""
    return [
        neuron_set
        for neuron_set in sets
        if neuron_set.label["neurons"] == CIRCUIT
        or (neuron_set.label["neurons"], neuron_set.label["seed"]) == ("random", 0)
    ]


def run_cell(started: Started, sets: Sequence[NeuronSet], means: MeanCache) -> Iterator[tuple[str, str, Readout]]:
    """Run every set in every intervention and at both choices of positions, on the eval prompts.

    Yields:
        ("good", "", readout (P,)), ("bad", "", readout (P,)), then (intervention, positions,
        readout (sets, P)) for each combination.
    """
    yield UNMODIFIED, "", unmodified(started)
    yield "bad", "", all_ablated(started, means)
    members = masks_of(sets)
    done = Progress(2 * len(INTERVENED) * len(members), "sets of a cell").add
    for (name, ablated), positions in product(INTERVENED.items(), ("all", "last")):
        everywhere = positions == "all"
        yield name, positions, intervene(started, ablated(members), means, everywhere=everywhere, done=done)


def faithfulness(values: np.ndarray, good: np.ndarray | float, bad: np.ndarray | float) -> np.ndarray:
    """(value - bad) / (good - bad) (paper, section 4.3); NaN where the gap is nearly zero.

    Args:
        values: normalised logits.
        good: normalised logits of the unmodified model, broadcastable to `values`.
        bad: normalised logits of the fully ablated model, broadcastable to `values`.
    """
    gap = np.asarray(good - bad)
    return (values - bad) / np.where(np.abs(gap) < NEARLY_ZERO, np.nan, gap)


def summarize(values: np.ndarray, good: np.ndarray, bad: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Mean faithfulness of every run, with bootstrap intervals over prompts.

    Args:
        values: normalised logits, (runs, P).
        good, bad: normalised logits of the unmodified and of the fully ablated model, (P,).
        weights: how often each prompt is in each bootstrap resample, (R, P).

    Returns:
        Columns faithfulness_mean, mean_low, mean_high, each (runs,).
    """
    ratios = faithfulness(values, good, bad)
    defined = ~np.isnan(ratios[0]) if len(ratios) else np.zeros(len(good), dtype=bool)
    kept = weights[:, defined].sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights[:, defined] @ ratios[:, defined].T) / kept[:, None]  # (R, runs)
        mean = ratios[:, defined].sum(1) / defined.sum()
    with warnings.catch_warnings():
        # All prompts of a resample may be undefined; if this holds for every resample, the interval is NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        mean_low, mean_high = np.nanquantile(means, [0.025, 0.975], axis=0)
    return {"faithfulness_mean": mean, "mean_low": mean_low, "mean_high": mean_high}


def mean_with_interval(name: str, values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Mean over prompts of values (runs, P), with its interval by bootstrap weights (R, P).

    Returns:
        Columns NAME, NAME_low, NAME_high, each (runs,).
    """
    resampled = weights @ values.T / values.shape[1]
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return {name: values.mean(1), f"{name}_low": low, f"{name}_high": high}


def _measured(readout: Readout, good: np.ndarray, bad: np.ndarray, choices: Choices) -> dict[str, np.ndarray]:
    """The summary's measured columns of a readout (sets, P), each (sets,)."""
    values = readout.normalized_logit.cpu().numpy()
    weights = bootstrap_weights(len(good), choices.resamples, choices.draws.seed, "prompts")
    return {
        **summarize(values, good, bad, weights),
        "normalized_logit": values.mean(1),
        **mean_with_interval("accuracy", readout.correct.double().cpu().numpy(), weights),
        **mean_with_interval("probability", readout.probability.cpu().numpy(), weights),
    }


def _by_prompt(readout: Readout, sets: Sequence[NeuronSet], good: np.ndarray, bad: np.ndarray) -> pd.DataFrame:
    """A readout (sets, P) as rows of the table by prompt."""
    values = readout.normalized_logit.cpu().numpy()
    prompts = pd.DataFrame({"index": np.arange(values.shape[1])})
    rows = readout_rows(readout, labels_of(sets)[["neurons", "k", "seed"]], prompts)
    return rows.assign(faithfulness=np.ravel(faithfulness(values, good, bad)))


def cell_tables(
    runs: Iterator[tuple[str, str, Readout]], sets: Sequence[NeuronSet], means: str, choices: Choices
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The summary table and the table by prompt of one cell, from `run_cell`'s readouts.

    Args:
        means: the table's name of the means that `run_cell` was given: format or template.
    """
    baselines = {name: next(runs)[2] for name in (UNMODIFIED, "bad")}
    good, bad = (readout.normalized_logit.cpu().numpy() for readout in baselines.values())
    nobody = [NeuronSet({"neurons": "none", "k": 0, "seed": NOT_DRAWN}, np.zeros((0, 0), dtype=bool))]
    by_prompt = [
        _by_prompt(readout[None], nobody, good, bad).assign(intervention=name, positions="all")
        for name, readout in baselines.items()
    ]
    sizes = np.array(list(map(len, sets)))
    present = [neuron_set for neuron_set in sets if len(neuron_set)]
    labels = labels_of(sets).reindex(columns=["neurons", "k", "seed"])
    summaries = []
    for intervention, positions, readout in runs:
        done = {"intervention": intervention, "positions": positions}
        if present:
            filled = readout[torch.from_numpy(sizes > 0)]
            by_prompt.append(_by_prompt(filled, present, good, bad).assign(**done))
        measured = _measured(readout, good, bad, choices)
        summaries.append(
            labels.assign(
                **done,
                n_neurons=sizes,
                prompts=len(good),
                undefined=int((np.abs(good - bad) < NEARLY_ZERO).sum()),
                good=good.mean(),
                bad=bad.mean(),
                centered=choices.center,
                # Keeping or knocking out no neuron is no intervention.
                **{name: np.where(sizes > 0, values, np.nan) for name, values in measured.items()},
            )
        )
    summary, prompts = (pd.concat(parts, ignore_index=True) for parts in (summaries, by_prompt))
    return summary.assign(means=means), prompts.assign(means=means)


def cell(
    run: Run,
    tokens: torch.Tensor,
    answers: torch.Tensor,
    circuits: Mapping[int, np.ndarray],
    halves: Mapping[str, Mapping[int, np.ndarray]],
    ranking: pd.DataFrame,
    means: Mapping[str, MeanCache],
    choices: Choices,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both interventions tables of one cell.

    Args:
        tokens: eval prompts (P, T).
        answers: token ids (P,).
        circuits: mask of each k, bool, (late layers, m).
        halves: masks of each k by the name of a half of the train prompts.
        ranking: ranking table of the cell.
        means: the format's mean cache under the name `format`; that of the template alone, if there is one,
            under `template`. Controls are matched by the template's variance where it is given.
    """
    variance = means.get(TEMPLATE_MEANS, means[FORMAT_MEANS]).late_variance(run.first)
    effects = run.by_neuron(ranking, "ie_mean")
    sets = neuron_sets(circuits, halves, variance, effects, choices.operator, choices.draws)
    started = start(run, tokens, answers, choices.center)
    parts = []
    for name, cache in means.items():
        tried = sets if name == FORMAT_MEANS else also_by_template(sets)
        parts.append(cell_tables(run_cell(started, tried, cache), tried, name, choices))
        for by_half, half_sets in with_half_means(tried, cache):
            summary, prompts = cell_tables(run_cell(started, half_sets, by_half), half_sets, name, choices)
            parts.append((summary, prompts[prompts["neurons"] != "none"]))
    summary, prompts = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    return summary, prompts
