"""The stages that calibration needs, on one of its constructed models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.stages.calibration.construction import PLANTED
from form_invariance.stages.circuit.compute import circuit_members, circuit_table
from form_invariance.stages.controls import Draws
from form_invariance.stages.interventions.compute import Choices
from form_invariance.stages.interventions.contrasts import Cell, cell_of
from form_invariance.stages.interventions.contrasts import contrast_table as intervention_contrasts
from form_invariance.stages.mean_cache.compute import MeanCache
from form_invariance.stages.overlap.compute import overlap_table, reliability_table
from form_invariance.stages.overlap.correlation import Measured, answers_of, format_correlation_table
from form_invariance.stages.planted.construction import TEMPLATES
from form_invariance.stages.planted.pipeline import OPERATOR, Ranked, intervened_cell, means_of, rank, start
from form_invariance.stages.run import Run
from form_invariance.stages.specificity.compute import damages
from form_invariance.stages.specificity.compute import neuron_sets as exchanged_sets
from form_invariance.stages.specificity.contrasts import contrasts_table
from form_invariance.stages.specificity.damages import Damages
from form_invariance.stages.specificity.tasks import operator_task
from form_invariance.stages.specificity.verdicts import exchanged
from form_invariance.stages.transfer.conditions import Plans, plan
from form_invariance.stages.transfer.contrasts import contrast_table as transfer_contrasts
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.names import CONTROLS
from form_invariance.stages.transfer.neuron_sets import Measured as Neurons
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets

KS = (PLANTED // 2, PLANTED, 2 * PLANTED)
"""Circuit sizes of the overlap; of the planted size alone, neurons are kept, knocked out and transferred too."""
_CENSUS, _PAIRS, _RESAMPLES = 600, 100, 200
_SEEDS = 5  # draws of a control


@dataclass(frozen=True)
class Results:
    """The tables of one model, as the stages of the same names write them."""

    overlap: pd.DataFrame
    reliability: pd.DataFrame
    correlation: pd.DataFrame
    interventions: pd.DataFrame
    exchange: pd.DataFrame
    transfer: pd.DataFrame


@dataclass(frozen=True)
class _Given:
    """What interventions, exchange and transfer start from; by format but for the circuits, which are by size."""

    run: Run
    cells: Mapping[str, Ranked]
    circuits: Mapping[int, np.ndarray]
    means: Mapping[str, MeanCache]
    formats: Mapping[str, Neurons]
    draws: Draws


def overlaps(run: Run, seed: int) -> tuple[dict[str, Ranked], pd.DataFrame, pd.DataFrame]:
    """The rankings by format, the overlap table and the reliability table."""
    cells = {name: rank(run, template, seed, _CENSUS) for name, template in TEMPLATES.items()}
    effects = {name: replace(cell.effects, name=name) for name, cell in cells.items()}
    return cells, overlap_table(effects, KS, _RESAMPLES, seed), reliability_table(effects, KS, seed)


def run_stages(model: Path, seed: int) -> Results:
    """Run the stages from the census to transfer, on the CPU.

    Args:
        model: the model's Hugging Face folder.
        seed: seed of every choice of the stages.
    """
    run = start(model)
    cells, overlap, reliability = overlaps(run, seed)
    circuit = circuit_table({name: cell.effects for name, cell in cells.items()}, [PLANTED])
    datasets = [cell.dataset for cell in cells.values()]
    means = {name: means_of(run, cell, datasets, seed) for name, cell in cells.items()}
    correlation = format_correlation_table(
        {(name, OPERATOR): _measured(cell, name) for name, cell in cells.items()}, _RESAMPLES, seed
    )
    formats = {
        name: measure(run, cell.ranking, means[name].late_variance(run.first)) for name, cell in cells.items()
    }
    circuits = {PLANTED: circuit_members(circuit, PLANTED, run.late, run.width)}
    given = _Given(run, cells, circuits, means, formats, Draws(_SEEDS, _SEEDS, seed))
    return Results(overlap, reliability, correlation, _interventions(given), _exchange(given), _transfer(given))


def _measured(cell: Ranked, name: str) -> Measured:
    train = cell.dataset[cell.dataset["split"] == "train"].sort_values("index")
    partners = cell.corrupt.sort_values("index")
    return Measured(cell.effects, answers_of(train, [partners], cell.effects, name))


def _interventions(given: _Given) -> pd.DataFrame:
    """Keep-only and knockout against the strongest control."""
    choices = Choices(OPERATOR, given.draws, _RESAMPLES, center=True)
    compared: dict[tuple[str, ...], Cell] = {}
    for name, cell in given.cells.items():
        both = intervened_cell(given.run, cell, given.circuits, given.means[name], choices)
        compared[name, OPERATOR] = cell_of(*both, cell.dataset)
    return intervention_contrasts(compared, _RESAMPLES, given.draws.seed)


def _exchange(given: _Given) -> pd.DataFrame:
    """What each format's best neurons do in the others: the verdicts *exchange*."""
    rank = {name: neurons.rank for name, neurons in given.formats.items()}
    measured: list[Damages] = []
    sets = {}
    for name, cell in given.cells.items():
        values = {"variance": given.formats[name].variance, "effect": given.formats[name].effect}
        sets[name] = exchanged_sets(OPERATOR, given.circuits, values, rank, given.draws)
        task = operator_task(given.run, OPERATOR, cell.dataset, given.means[name])
        measured += damages(given.run, name, task, sets[name], _RESAMPLES, given.draws.seed, center=True)
    return exchanged(contrasts_table(measured, sets, [OPERATOR]))


def _transfer(given: _Given) -> pd.DataFrame:
    """Transfer of the shared neurons against the strongest control."""
    sets = neuron_sets(given.run, given.circuits, given.formats, OPERATOR, given.draws)
    censuses = {name: cell.census for name, cell in given.cells.items()}
    datasets = [cell.dataset for cell in given.cells.values()]
    plans = _same_operands(plan(censuses, datasets, _PAIRS, given.draws.seed, OPERATOR))
    moved = [
        (rates.assign(direction="_to_".join(direction)), pairs)
        for direction, rates, pairs in transfer_tables(given.run, plans, {}, sets, center=True)
    ]
    rates, pairs = (pd.concat(tables).assign(operator=OPERATOR) for tables in zip(*moved, strict=True))
    return transfer_contrasts(rates, pairs, _RESAMPLES, given.draws.seed)


def _same_operands(plans: Plans) -> Plans:
    """The directions with wrong answers to correct, and the conditions that calibration compares."""
    kept: Plans = {}
    for direction, (failed, *_) in plans.items():
        conditions = [condition for condition in failed.conditions if condition.name in ("matched", *CONTROLS)]
        if len(failed.pairs):
            kept[direction] = [replace(failed, conditions=conditions)]
    return kept
