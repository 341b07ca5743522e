"""The keep-only and knockout experiment of one cell: circuits, controls, faithfulness (method, section 7)."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from form_invariance.model.readout import Readout, stack
from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.circuit.controls import draw_controls
from form_invariance.stages.interventions.table import FORMAT_MEANS
from form_invariance.stages.mean_cache.ablation import (
    EvalRun,
    ablate_all_positions,
    ablate_last_position,
    run_all_ablated,
    run_unmodified,
    start_run,
)
from form_invariance.stages.mean_cache.compute import MeanCache
from form_invariance.stages.run import Run
from form_invariance.statistics import bootstrap_weights

NEARLY_ZERO = 1e-3
"""A good - bad gap of the normalised logit below this leaves a prompt's faithfulness undefined."""


@dataclass(frozen=True)
class Choices:
    """What a run measures of a cell: circuit sizes, controls and intervals."""

    operator: str  # it has controls of its own, which its formats share
    ks: Sequence[int]
    random_seeds: int  # draws of the uniform control
    matched_seeds: int  # draws of each of the controls matched by variance and by effect
    resamples: int
    seed: int
    center: bool


@dataclass(frozen=True)
class NeuronSet:
    """A set of neurons to keep or knock out: the circuit at one k, or a control of it."""

    neurons: str
    k: int
    seed: int
    members: np.ndarray  # bool, (late layers, m)


def effects_of(ranking: pd.DataFrame, run: Run) -> np.ndarray:
    """Mean indirect effects as an array (late layers, m), NaN where a neuron was no candidate."""
    effects = np.full((len(run.late), run.width), np.nan)
    effects[ranking["layer"].to_numpy() - run.first, ranking["neuron"].to_numpy()] = ranking["ie_mean"]
    return effects


def neuron_sets(
    circuits: dict[int, np.ndarray], variance: np.ndarray, effects: np.ndarray, choices: Choices
) -> list[NeuronSet]:
    """The circuit of every k and its controls, all with as many neurons in the same layers.

    Args:
        circuits: mask of each k, bool, (late layers, m).
        variance: variance of the last token's activations, (late layers, m).
        effects: mean indirect effects, (late layers, m).

    Returns:
        In order; a control is absent where too few neurons lie outside the circuit.
    """
    kinds = {
        "random": (None, choices.random_seeds),
        "random_variance": (variance, choices.matched_seeds),
        "random_effect": (effects, choices.matched_seeds),
    }
    sets = []
    for k, members in circuits.items():
        sets.append(NeuronSet("circuit", k, -1, members))
        for kind, (values, draws) in kinds.items():
            for draw in range(draws):
                control = draw_controls(members, values, choices.seed, choices.operator, kind, k, draw)
                if control is not None:
                    sets.append(NeuronSet(kind, k, draw, control))
    return sets


def also_by_template(sets: Sequence[NeuronSet]) -> list[NeuronSet]:
    """The sets that are tried with the template's own means too: every circuit, and one random control of it."""
    return [one for one in sets if one.neurons == "circuit" or (one.neurons == "random" and one.seed == 0)]


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
        parts: list[EvalRun] = []
        bad = []
        for start in range(0, len(tokens), batch):
            prompts, wanted = tokens[start : start + batch], answers[start : start + batch]
            parts.append(start_run(model, prompts, wanted, run.first))
            bad.append(run_all_ablated(model, prompts, wanted, means, center))
        yield "good", "", stack([run_unmodified(model, part, center) for part in parts])
        yield "bad", "", stack(bad)
        members = np.stack([one.members for one in sets])
        for intervention, masks in (("keep_only", ~members), ("knockout", members)):
            distinct, which = _distinct(masks)
            ablated = torch.from_numpy(distinct).to(model.device)
            rows = torch.from_numpy(which).to(model.device)
            everywhere = [ablate_all_positions(model, part, ablated, means, bos, center) for part in parts]
            yield intervention, "all", stack(everywhere)[rows]
            last = [ablate_last_position(model, part, ablated, means, center) for part in parts]
            yield intervention, "last", stack(last)[rows]


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
    summaries = []
    for intervention, positions, readout in runs:
        done = {"intervention": intervention, "positions": positions}
        by_prompt.append(_by_prompt(readout, sets, good, bad).assign(**done))
        values = readout.normalized_logit.cpu().numpy()
        summaries.append(
            _labels(sets).assign(
                **done,
                n_neurons=[int(one.members.sum()) for one in sets],
                prompts=len(good),
                undefined=int((np.abs(good - bad) < NEARLY_ZERO).sum()),
                **summarize(values, good, bad, choices.resamples, choices.seed),
                normalized_logit=values.mean(1),
                good=good.mean(),
                bad=bad.mean(),
                accuracy=readout.correct.double().mean(-1).cpu().numpy(),
                probability=readout.probability.mean(-1).cpu().numpy(),
                centered=choices.center,
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
            under `template`.
    """
    variance = torch.stack(means[FORMAT_MEANS].variance[run.first :]).float().cpu().numpy()
    circuits = {k: circuit_members(circuit, k, run.late, run.width) for k in choices.ks}
    sets = neuron_sets(circuits, variance, effects_of(ranking, run), choices)
    parts = []
    for name, cache in means.items():
        tried = sets if name == FORMAT_MEANS else also_by_template(sets)
        runs = run_cell(run, tokens, answers, tried, cache, choices.center)
        parts.append(cell_tables(runs, tried, name, choices))
    summary, prompts = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    return summary, prompts
