"""The keep-only and knockout experiment of one cell: circuits, controls, faithfulness (method, section 7).

Keep-only: all late neurons outside a set take their mean activation at every position but BOS. Knockout: the
neurons of the set do. Faithfulness is the answer's normalised logit, from 0 for the fully ablated model to 1
for the unmodified one. The controls are as many neurons of each layer, drawn at random, or matched by variance
or effect.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import torch

from form_invariance.model.readout import Readout, join_prompts, stack
from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.interventions.sets import (
    Choices,
    NeuronSet,
    also_by_template,
    neuron_sets,
)
from form_invariance.stages.interventions.table import FORMAT_MEANS, TEMPLATE_MEANS
from form_invariance.stages.mean_cache.ablation import (
    ablate_all_positions,
    ablate_last_position,
    run_all_ablated,
    run_unmodified,
    start_runs,
)
from form_invariance.stages.mean_cache.compute import MeanCache
from form_invariance.stages.run import Run
from form_invariance.statistics import bootstrap_weights
from form_invariance.tables.progress import Progress

_SETS = 8
"""Sets that run between two looks at the clock: what no set changes runs once for all of them."""
NEARLY_ZERO = 1e-3
"""A good - bad gap of the normalised logit below this leaves a prompt's faithfulness undefined."""


def _distinct(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of masks (n, ...), and for each row the number of its distinct one."""
    packed = np.packbits(masks.reshape(len(masks), -1), axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return masks[first], inverse.reshape(-1)


def run_cell(
    run: Run,
    tokens: torch.Tensor,
    answers: torch.Tensor,
    sets: Sequence[NeuronSet],
    means: MeanCache,
    center: bool,
    batch: int = 100,
) -> Iterator[tuple[str, str, Readout]]:
    """Run every set in both interventions and at both choices of positions, on the eval prompts.

    Args:
        tokens: (P, T).
        answers: token ids, (P,).

    Yields:
        ("good", "", readout (P,)), ("bad", "", readout (P,)), then (intervention, positions,
        readout (sets, P)) for each of the four combinations.
    """
    model, bos = run.model, run.tokenizer.bos is not None
    with torch.no_grad():
        parts = list(start_runs(model, tokens, answers, run.first, batch))
        rows = [part.rows for part in parts]
        yield "good", "", join_prompts(rows, [run_unmodified(model, part, center) for part in parts])
        yield "bad", "", join_prompts(rows, [run_all_ablated(model, part, means, center) for part in parts])
        members = np.stack([one.members for one in sets])
        distinct = {"keep_only": _distinct(~members), "knockout": _distinct(members)}
        progress = Progress(2 * sum(len(masks) for masks, _ in distinct.values()), "sets of a cell")
        everywhere = partial(ablate_all_positions, means=means, bos=bos, center=center)
        last = partial(ablate_last_position, means=means, center=center)
        for (intervention, (masks, which)), (positions, ablate) in product(
            distinct.items(), (("all", everywhere), ("last", last))
        ):
            found = []
            for some in torch.from_numpy(masks).to(model.device).split(_SETS):
                found.append(join_prompts(rows, [ablate(model, part, some) for part in parts]))
                progress.add(len(some))
            yield intervention, positions, stack(found, dim=0)[torch.from_numpy(which).to(model.device)]


def faithfulness(values: np.ndarray, good: np.ndarray | float, bad: np.ndarray | float) -> np.ndarray:
    """(value - bad) / (good - bad) (paper, section 4.3); NaN where the gap is nearly zero.

    Args:
        values: normalised logits.
        good: of the unmodified model, broadcastable to `values`.
        bad: of the fully ablated model, likewise.
    """
    gap = np.asarray(good - bad)
    return (values - bad) / np.where(np.abs(gap) < NEARLY_ZERO, np.nan, gap)


def summarize(
    values: np.ndarray, good: np.ndarray, bad: np.ndarray, resamples: int, seed: int
) -> dict[str, np.ndarray]:
    """Faithfulness of every run, both ways, with bootstrap intervals over prompts.

    Args:
        values: normalised logits, (runs, P).
        good: (P,).
        bad: (P,).
        resamples: bootstrap resamples.

    Returns:
        Columns faithfulness_mean, mean_low, mean_high, faithfulness_ratio, ratio_low, ratio_high, each (runs,).
    """
    prompts = len(good)
    ratios = faithfulness(values, good, bad)
    defined = ~np.isnan(ratios[0]) if len(ratios) else np.zeros(prompts, dtype=bool)
    weights = bootstrap_weights(prompts, resamples, seed, "prompts")
    kept = weights[:, defined].sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights[:, defined] @ ratios[:, defined].T) / kept[:, None]  # (R, runs)
        mean = ratios[:, defined].sum(1) / defined.sum()
    resampled = weights @ np.vstack([values, good, bad]).T / prompts  # (R, runs + 2)
    ratios_of_means = faithfulness(resampled[:, :-2], resampled[:, -2:-1], resampled[:, -1:])
    with warnings.catch_warnings():
        # A resample may hold undefined prompts alone; where all do, the interval is not a number.
        warnings.simplefilter("ignore", RuntimeWarning)
        mean_low, mean_high = np.nanquantile(means, [0.025, 0.975], axis=0)
        ratio_low, ratio_high = np.nanquantile(ratios_of_means, [0.025, 0.975], axis=0)
    return {
        "faithfulness_mean": mean,
        "mean_low": mean_low,
        "mean_high": mean_high,
        "faithfulness_ratio": faithfulness(values.mean(1), good.mean(), bad.mean()),
        "ratio_low": ratio_low,
        "ratio_high": ratio_high,
    }


def mean_with_interval(name: str, values: np.ndarray, resamples: int, seed: int) -> dict[str, np.ndarray]:
    """Mean over prompts of values (runs, P), with its bootstrap interval over prompts.

    Returns:
        Columns NAME, NAME_low, NAME_high, each (runs,).
    """
    resampled = bootstrap_weights(values.shape[1], resamples, seed, "prompts") @ values.T / values.shape[1]
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return {name: values.mean(1), f"{name}_low": low, f"{name}_high": high}


def _measured(readout: Readout, good: np.ndarray, bad: np.ndarray, choices: Choices) -> dict[str, np.ndarray]:
    """The summary's measured columns of a readout (sets, P), each (sets,)."""
    values = readout.normalized_logit.cpu().numpy()
    bootstrap = choices.resamples, choices.seed
    return {
        **summarize(values, good, bad, *bootstrap),
        "normalized_logit": values.mean(1),
        **mean_with_interval("accuracy", readout.correct.double().cpu().numpy(), *bootstrap),
        **mean_with_interval("probability", readout.probability.cpu().numpy(), *bootstrap),
    }


def _labels(sets: Sequence[NeuronSet]) -> pd.DataFrame:
    """The columns that tell the sets apart, a row each."""
    return pd.DataFrame([(one.neurons, one.k, one.seed) for one in sets], columns=["neurons", "k", "seed"])


def _by_prompt(readout: Readout, sets: Sequence[NeuronSet], good: np.ndarray, bad: np.ndarray) -> pd.DataFrame:
    """Long table of a readout (sets, P): one row a set and prompt."""
    values = readout.normalized_logit.cpu().numpy()
    count, prompts = values.shape
    labels = _labels(sets).loc[np.repeat(np.arange(count), prompts)].reset_index(drop=True)
    return labels.assign(
        index=np.tile(np.arange(prompts), count),
        normalized_logit=values.ravel(),
        faithfulness=faithfulness(values, good, bad).ravel(),
        correct=readout.correct.cpu().numpy().ravel(),
        probability=readout.probability.cpu().numpy().ravel(),
    )


def cell_tables(
    runs: Iterator[tuple[str, str, Readout]], sets: Sequence[NeuronSet], means: str, choices: Choices
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The summary table and the table by prompt of one cell, from `run_cell`'s readouts.

    Args:
        means: the table's word for the means that `run_cell` was given, format or template.
    """
    baselines = {name: next(runs)[2] for name in ("good", "bad")}
    good, bad = (baselines[name].normalized_logit.cpu().numpy() for name in ("good", "bad"))
    nobody = [NeuronSet("none", 0, -1, np.zeros((0, 0), dtype=bool))]
    by_prompt = [
        _by_prompt(readout[None], nobody, good, bad).assign(intervention=name, positions="all")
        for name, readout in baselines.items()
    ]
    filled = np.array([one.members.any() for one in sets])
    present = [one for one in sets if one.members.any()]
    summaries = []
    for intervention, positions, readout in runs:
        done = {"intervention": intervention, "positions": positions}
        if present:
            by_prompt.append(_by_prompt(readout[torch.from_numpy(filled)], present, good, bad).assign(**done))
        measured = _measured(readout, good, bad, choices)
        summaries.append(
            _labels(sets).assign(
                **done,
                n_neurons=[int(one.members.sum()) for one in sets],
                match_distance=[one.match_distance for one in sets],
                circuit_share=[one.circuit_share for one in sets],
                prompts=len(good),
                undefined=int((np.abs(good - bad) < NEARLY_ZERO).sum()),
                good=good.mean(),
                bad=bad.mean(),
                centered=choices.center,
                # To keep or to knock out no neuron is no intervention.
                **{name: np.where(filled, values, np.nan) for name, values in measured.items()},
            )
        )
    summary, prompts = (pd.concat(parts, ignore_index=True) for parts in (summaries, by_prompt))
    return summary.assign(means=means), prompts.assign(means=means)


def intervene(
    run: Run,
    tokens: torch.Tensor,
    answers: torch.Tensor,
    circuit: pd.DataFrame,
    ranking: pd.DataFrame,
    means: Mapping[str, MeanCache],
    choices: Choices,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both interventions tables of one cell.

    Args:
        tokens: eval prompts (P, T).
        answers: token ids (P,).
        circuit: circuit table.
        ranking: ranking table of the cell.
        means: the format's mean cache under the name `format`; that of the template alone, if there is one,
            under `template`. Controls are matched by the template's variance where it is given.
    """
    own = means.get(TEMPLATE_MEANS, means[FORMAT_MEANS])
    circuits = {k: circuit_members(circuit, k, run.late, run.width) for k in choices.ks}
    sets = neuron_sets(circuits, own.late_variance(run.first), run.by_neuron(ranking, "ie_mean"), choices)
    parts = []
    for name, cache in means.items():
        tried = sets if name == FORMAT_MEANS else also_by_template(sets)
        runs = run_cell(run, tokens, answers, tried, cache, choices.center)
        parts.append(cell_tables(runs, tried, name, choices))
    summary, prompts = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    return summary, prompts
