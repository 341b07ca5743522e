"""The stages on a constructed model, from the census to transfer, with the settings that the rules would give."""

from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace

import pandas as pd
import torch
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

OPERATOR, RESAMPLES = "addition", 200


class ConstructedRun:
    """The tables of one model with one operator; each is computed when it is first asked for.

    Args:
        folder: the model's Hugging Face folder.
        k: size of the circuit that is kept, knocked out, exchanged and transferred.
        census: operand pairs of each census; None: all.
        pairs: largest number of pairs that a direction of transfer tries.
    """

    def __init__(self, folder, k, seed, census=None, pairs=200):
        model = loading.load(folder, dtype=torch.float32, device="cpu")
        self.run = Run(model, load_tokenizer(folder), LATE[0])
        self.k, self.seed, self.census, self.pairs = k, seed, census, pairs
        self.draws = Draws(5, 5, seed)

    @cached_property
    def cells(self):
        """Census, dataset, corrupt partners, effects and ranking of each format."""
        return {name: self._ranked(name, template) for name, template in TEMPLATES.items()}

    def _ranked(self, name, template):
        run, choice = self.run, Choice(40, 30, draws=1, seed=self.seed)
        task = Arithmetic(EXPRESSION, LIMITS)
        census = take_census(run.model, run.tokenizer, template, OPERATOR, task, self.census, self.seed)
        dataset, corrupt = make_dataset({OPERATOR: (census, template)}, OPERATOR, choice)
        prompts = dataset[dataset["split"] == "train"].sort_values("index", ignore_index=True)
        train = train_prompts(prompts, [corrupt], run.tokenizer, run.model.device)
        attribution = first_stage(run, train, run.width)
        candidates = candidates_of(attribution, run.model.device)
        tensors = to_tensors(patch_candidates(run, train, candidates), candidates)
        arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
        effects = replace(from_tensors(arrays, run.width), name=name)
        ranking = rank_cell(arrays, attribution)
        return SimpleNamespace(census=census, dataset=dataset, effects=effects, ranking=ranking)

    @cached_property
    def effects(self):
        return {name: cell.effects for name, cell in self.cells.items()}

    def overlap(self, ks):
        return overlap_table(self.effects, ks, RESAMPLES, self.seed)

    def reliability(self, ks):
        return reliability_table(self.effects, ks, self.seed)

    @cached_property
    def circuits(self):
        table = circuit_table(self.effects, [self.k])
        return {self.k: circuit_members(table, self.k, self.run.late, self.run.width)}

    @cached_property
    def datasets(self):
        return [cell.dataset for cell in self.cells.values()]

    @cached_property
    def means(self):
        """The mean cache of each format."""
        found = {}
        for name, cell in self.cells.items():
            chosen = mean_cache.choose_prompts({OPERATOR: cell.census}, self.datasets, 300, self.seed)
            found[name] = mean_cache.compute(self.run.model, self.run.tokenizer, list(chosen.values()))
        return found

    @cached_property
    def measured(self):
        """Variance and ranks of the late neurons in each format."""
        first = self.run.first
        return {
            name: measure(self.run, cell.ranking, self.means[name].late_variance(first))
            for name, cell in self.cells.items()
        }

    @cached_property
    def contrasts(self):
        """Keep-only and knockout against the strongest controls."""
        choices, cells = Choices(OPERATOR, self.draws, RESAMPLES, center=True), {}
        for name, cell in self.cells.items():
            prompts = eval_prompts(cell.dataset, self.run.tokenizer, self.run.model.device)
            means = {FORMAT_MEANS: self.means[name]}
            both = intervene_cell(self.run, *prompts, self.circuits, {}, cell.ranking, means, choices)
            cells[name, OPERATOR] = cell_of(*both, cell.dataset)
        return intervention_contrasts(cells, RESAMPLES, self.seed)

    @cached_property
    def exchange(self):
        """What each format's best neurons do in the others: the verdicts *exchange*."""
        found, sets = [], {}
        for name, cell in self.cells.items():
            values = {"variance": self.measured[name].variance, "effect": self.measured[name].effect}
            sets[name] = circuit_sets(OPERATOR, self.circuits, {}, values, self.draws)
            best = best_sets(OPERATOR, name, self.effects, [self.k], values, self.draws, [OPERATOR])
            # One operator says little of the noise of rankings, whose interval would be 13 standard errors wide.
            sets[name] += [some for some in best if not some.label["neurons"].startswith(HALVES)]
            task = operator_task(self.run, OPERATOR, cell.dataset, self.means[name])
            found += damages(self.run, name, task, sets[name], RESAMPLES, self.seed, center=True)
        return ratios(contrasts_table(found, sets, [OPERATOR])).query("question == 'exchange'")

    @cached_property
    def transfer_contrasts(self):
        """Of all directions."""
        sets = neuron_sets(self.run, self.circuits, {}, self.measured, OPERATOR, self.draws)
        censuses = {name: cell.census for name, cell in self.cells.items()}
        plans = plan(censuses, self.datasets, self.pairs, self.seed, OPERATOR)
        averages = {name: cache.last_token(self.run.first) for name, cache in self.means.items()}
        moved = list(transfer_tables(self.run, plans, averages, sets, center=True))
        tables = (pd.concat([one[part] for one in moved]).assign(operator=OPERATOR) for part in (1, 2))
        return transfer_contrasts(*tables, RESAMPLES, self.seed)
