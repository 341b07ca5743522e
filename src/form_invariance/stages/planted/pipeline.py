"""The stages on a planted model, with the settings that the rules would give them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from form_invariance.model import loading as models
from form_invariance.model.files import load_tokenizer, resolve
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.attribution.candidates import candidates_of
from form_invariance.stages.attribution.compute import first_stage
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.circuit.compute import circuit_members, circuit_table
from form_invariance.stages.controls import Draws
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.prompts import eval_prompts, train_prompts
from form_invariance.stages.interventions.compute import Choices
from form_invariance.stages.interventions.compute import cell as intervene_cell
from form_invariance.stages.interventions.contrasts import Cell, cell_of, contrast_table
from form_invariance.stages.interventions.table import FORMAT_MEANS
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.membership import Effects, from_tensors, to_tensors
from form_invariance.stages.overlap.compute import overlap_table
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.patching.ranking import rank_cell
from form_invariance.stages.planted.construction import EXPRESSION, LATE, LIMITS, PLANTED, TEMPLATES
from form_invariance.stages.run import Run
from form_invariance.stages.transfer.conditions import plan
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets

OPERATOR = "addition"
TRAIN, EVALUATION = 40, 30
"""Prompts of a format that rank the neurons, and that test circuits."""
_MEAN_PROMPTS, _PAIRS, _RESAMPLES = 300, 200, 200
_RANDOM_SEEDS, _MATCHED_SEEDS = 5, 5


@dataclass(frozen=True)
class Results:
    """The tables of one planted model, by format or by direction (donor, target)."""

    census: dict[str, pd.DataFrame]
    ranking: dict[str, pd.DataFrame]
    overlap: pd.DataFrame
    circuit: pd.DataFrame
    interventions: dict[str, pd.DataFrame]
    contrasts: pd.DataFrame
    transfer: dict[tuple[str, str], pd.DataFrame]


@dataclass(frozen=True)
class Ranked:
    """The tables of one format that later stages need."""

    census: pd.DataFrame
    dataset: pd.DataFrame
    corrupt: pd.DataFrame
    effects: Effects
    ranking: pd.DataFrame


def run_stages(model: Path, seed: int) -> Results:
    """Run every stage from the census to transfer, on the CPU.

    Args:
        model: the model's Hugging Face folder.
        seed: seed of every choice of the stages.
    """
    run = start(model)
    cells = {name: rank(run, template, seed) for name, template in TEMPLATES.items()}
    effects = {name: cell.effects for name, cell in cells.items()}
    circuit = circuit_table(effects, [PLANTED])
    censuses = {name: cell.census for name, cell in cells.items()}
    datasets = [cell.dataset for cell in cells.values()]
    means = {name: means_of(run, cell, datasets, seed) for name, cell in cells.items()}
    formats = {
        name: measure(run, cell.ranking, means[name].late_variance(run.first)) for name, cell in cells.items()
    }
    circuits = {PLANTED: circuit_members(circuit, PLANTED, run.late, run.width)}
    draws = Draws(_RANDOM_SEEDS, _MATCHED_SEEDS, seed)
    sets = neuron_sets(run, circuits, formats, OPERATOR, draws)
    choices = Choices(OPERATOR, draws, _RESAMPLES, center=True)
    intervened = {name: intervened_cell(run, cell, circuits, means[name], choices) for name, cell in cells.items()}
    compared: dict[tuple[str, ...], Cell] = {
        (name, OPERATOR): cell_of(*both, cells[name].dataset) for name, both in intervened.items()
    }
    averages = {name: cache.last_token(run.first) for name, cache in means.items()}
    plans = plan(censuses, datasets, _PAIRS, seed, OPERATOR)
    moved = transfer_tables(run, plans, averages, sets, center=True)
    return Results(
        censuses,
        {name: cell.ranking for name, cell in cells.items()},
        overlap_table(effects, [PLANTED], _RESAMPLES, seed),
        circuit,
        {name: summary for name, (summary, _) in intervened.items()},
        contrast_table(compared, _RESAMPLES, seed),
        {direction: rates for direction, rates, _ in moved},
    )


def start(model: Path) -> Run:
    """A planted model on the CPU; `model` is its Hugging Face folder."""
    folder = resolve(str(model), None)
    decoder = models.load(folder, dtype=torch.float32, device="cpu")
    return Run(decoder, load_tokenizer(folder), LATE[0])


def rank(run: Run, template: str, seed: int, pairs: int | None = None) -> Ranked:
    """Census of `pairs` operand pairs (None: all), dataset, attribution, exact patching, ranking of one format."""
    census = take_census(run.model, run.tokenizer, template, OPERATOR, Arithmetic(EXPRESSION, LIMITS), pairs, seed)
    choice = Choice(TRAIN, EVALUATION, draws=1, seed=seed)
    dataset, corrupt = make_dataset({OPERATOR: (census, template)}, OPERATOR, choice)
    prompts = dataset[dataset["split"] == "train"].sort_values("index", ignore_index=True)
    train = train_prompts(prompts, [corrupt], run.tokenizer, run.model.device)
    attribution = first_stage(run, train, run.width, "attribution")
    candidates = candidates_of(attribution, run.model.device)
    tensors = to_tensors(patch_candidates(run, train, candidates), candidates)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    return Ranked(census, dataset, corrupt, from_tensors(arrays, run.width), rank_cell(arrays, attribution))


def means_of(run: Run, cell: Ranked, datasets: Sequence[pd.DataFrame], seed: int) -> mean_cache.MeanCache:
    """Mean cache of one format."""
    chosen = mean_cache.choose_prompts({OPERATOR: cell.census}, datasets, _MEAN_PROMPTS, seed)
    return mean_cache.compute(run.model, run.tokenizer, list(chosen.values()))


def intervened_cell(
    run: Run, cell: Ranked, circuits: Mapping[int, np.ndarray], means: mean_cache.MeanCache, choices: Choices
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep-only and knockout of one format: the summary and the table by prompt."""
    tokens, answers = eval_prompts(cell.dataset, run.tokenizer, run.model.device)
    return intervene_cell(run, tokens, answers, circuits, cell.ranking, {FORMAT_MEANS: means}, choices)
