"""The stages on a constructed model, from the census to transfer, with the settings that the rules would give."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import torch
from graded_models import PLANTED
from planted_models import EXPRESSION, LATE, LIMITS, TEMPLATES

from form_invariance.beyond.specificity.compute import damages
from form_invariance.beyond.specificity.contrasts import contrasts_table
from form_invariance.beyond.specificity.neuron_sets import best_sets, circuit_sets
from form_invariance.beyond.specificity.tasks import operator_task
from form_invariance.beyond.specificity.verdicts import ratios
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.membership import from_tensors, to_tensors
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.attribution.candidates import candidates_of
from form_invariance.stages.attribution.compute import first_stage
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.circuit.compute import circuit_members, circuit_table
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.prompts import eval_prompts, train_prompts
from form_invariance.stages.interventions.compute import Choices
from form_invariance.stages.interventions.compute import cell as intervene_cell
from form_invariance.stages.interventions.contrasts import cell_of
from form_invariance.stages.interventions.contrasts import contrast_table as intervention_contrasts
from form_invariance.stages.interventions.table import FORMAT_MEANS
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.overlap.compute import overlap_table, reliability_table
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.patching.ranking import rank_cell
from form_invariance.stages.transfer.conditions import plan
from form_invariance.stages.transfer.contrasts import contrast_table as transfer_contrasts
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets

OPERATOR, RESAMPLES, K = "addition", 200, PLANTED


def ranked(run, template, seed):
    """Census, dataset, effects and ranking of a format."""
    task, choice = Arithmetic(EXPRESSION, LIMITS), Choice(40, 30, draws=1, seed=seed)
    census = take_census(run.model, run.tokenizer, template, OPERATOR, task, 600, seed)
    dataset, corrupt = make_dataset({OPERATOR: (census, template)}, OPERATOR, choice)
    prompts = dataset[dataset["split"] == "train"].sort_values("index", ignore_index=True)
    train = train_prompts(prompts, [corrupt], run.tokenizer, run.model.device)
    attribution = first_stage(run, train, run.width)
    candidates = candidates_of(attribution, run.model.device)
    tensors = to_tensors(patch_candidates(run, train, candidates), candidates)
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    ranking = rank_cell(arrays, attribution)
    return SimpleNamespace(
        census=census, dataset=dataset, effects=from_tensors(arrays, run.width), ranking=ranking
    )


def tables_of(folder, seed, ks):
    """Overlap and reliability at each k; by what is done to the circuit of `K`, all contrasts."""
    model = loading.load(folder, dtype=torch.float32, device="cpu")
    run, draws = Run(model, load_tokenizer(folder), LATE[0]), Draws(5, 5, seed)
    cells = {name: ranked(run, template, seed) for name, template in TEMPLATES.items()}
    effects = {name: replace(cell.effects, name=name) for name, cell in cells.items()}
    circuits = {K: circuit_members(circuit_table(effects, [K]), K, run.late, run.width)}
    datasets = [cell.dataset for cell in cells.values()]
    choices = Choices(OPERATOR, draws, RESAMPLES, center=True)
    measured, averages, ablated, exchanged, sets = {}, {}, {}, [], {}
    for name, cell in cells.items():
        chosen = mean_cache.choose_prompts({OPERATOR: cell.census}, datasets, 300, seed)
        means = mean_cache.compute(model, run.tokenizer, list(chosen.values()))
        averages[name] = means.last_token(run.first)
        measured[name] = measure(run, cell.ranking, means.late_variance(run.first))
        prompts = eval_prompts(cell.dataset, run.tokenizer, model.device)
        both = intervene_cell(run, *prompts, circuits, {}, cell.ranking, {FORMAT_MEANS: means}, choices)
        ablated[name, OPERATOR] = cell_of(*both, cell.dataset)
        values = {"variance": measured[name].variance, "effect": measured[name].effect}
        best = best_sets(OPERATOR, name, effects, [K], values, draws, [OPERATOR])
        # One operator says little of the noise of rankings, whose interval would be 13 standard errors wide.
        best = [some for some in best if not some.label["neurons"].startswith(HALVES)]
        sets[name] = circuit_sets(OPERATOR, circuits, {}, values, draws) + best
        task = operator_task(run, OPERATOR, cell.dataset, means)
        exchanged += damages(run, name, task, sets[name], RESAMPLES, seed, center=True)
    plans = plan({name: cell.census for name, cell in cells.items()}, datasets, 100, seed, OPERATOR)
    moved_sets = neuron_sets(run, circuits, {}, measured, OPERATOR, draws)
    moved = list(transfer_tables(run, plans, averages, moved_sets, center=True))
    by_direction, by_pair = (pd.concat([one[part] for one in moved]).assign(operator=OPERATOR) for part in (1, 2))
    return {
        "overlap": overlap_table(effects, ks, RESAMPLES, seed),
        "reliability": reliability_table(effects, ks, seed),
        "ablated": intervention_contrasts(ablated, RESAMPLES, seed),
        "exchanged": ratios(contrasts_table(exchanged, sets, [OPERATOR])).query("question == 'exchange'"),
        "moved": transfer_contrasts(by_direction, by_pair, RESAMPLES, seed),
    }
