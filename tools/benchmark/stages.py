"""The throughput of each stage on one cell, in prompts, patches or pairs per second."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmark.measure import Machine, Row, matrix_operations
from form_invariance.experiment.controls import circuit_set
from form_invariance.experiment.intervene import read_replaced, start
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.run import Run
from form_invariance.model.near_readout import Readouts
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import render
from form_invariance.randomness import generator
from form_invariance.stages.attribution.compute import attribute
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.heuristics.activations import operand_maps
from form_invariance.stages.heuristics.pairs import grid_prompts, make_grid
from form_invariance.stages.interventions import compute as interventions
from form_invariance.stages.mean_cache.compute import compute
from form_invariance.stages.patching.compute import patch_layers
from form_invariance.stages.probe import compute as probe

CIRCUITS = 6
"""Number of circuits in transfer and of sets in interventions (the paper's grid has about sixty)."""

Job = tuple[str, Callable[[], object], int, str]
"""Stage, function, number of units of work, and the unit."""


def _problems(prompts: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs of operands (at most 90,000)."""
    places = generator(0, "bench").permutation(300 * 300)[:prompts]
    return places // 300 + 100, places % 300 + 100


class _Cell:
    """The prompts of one cell, and the work of every stage on them."""

    def __init__(self, run: Run, template: str, prompts: int) -> None:
        self.run, self.model, self.template = run, run.model, template
        a, b = _problems(prompts)
        self.prompts = [render(template, *pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
        self.tokens, self.right = run.tokens(self.prompts), run.answer_tokens(a + b)
        self.length = self.tokens.shape[1]
        self.answers = torch.stack([self.right, self.right.roll(1)], dim=1)
        self.circuits = generator(0, "bench-circuits").random((CIRCUITS, len(run.late), run.width)) < 0.1
        self.grid = make_grid("a + b", max(2, int(prompts**0.5)))

    def _corrupt(self) -> Tensor:
        return last_token_neurons(self.model, self.tokens.roll(1, 0), self.run.first)

    def census(self) -> None:
        limits = OperandRange(100, 99 + self.grid.max_operand, 0, 999)
        take_census(
            self.model, self.run.tokenizer, self.template, "addition", Arithmetic("a + b", limits), None, seed=0
        )

    def attribution(self) -> None:
        attribute(self.model, self.tokens, self._corrupt(), self.answers, self.run.first)

    @torch.no_grad()
    def patching(self, candidates: int) -> None:
        neurons = {layer: torch.arange(candidates, device=self.model.device) for layer in self.run.late}
        corrupt, answers = self._corrupt()[None], self.answers[None]
        patch_layers(
            self.model, self.tokens, self.run.first, neurons, corrupt, answers, lambda _: None, Readouts(full=True)
        )

    def ablate(self, means: MeanCache) -> None:
        sets = [circuit_set(members, k) for k, members in enumerate(self.circuits)]
        started = start(self.run, self.tokens, self.right, center=True)
        list(interventions.run_cell(started, sets, means))

    @torch.no_grad()
    def transfer(self) -> None:
        cache = build_cache(self.model, self.tokens, self.run.first)
        masks = torch.from_numpy(self.circuits).to(self.model.device)
        read_replaced(self.model, cache, self.right, masks, self._corrupt(), center=True)

    def jobs(self, candidates: int) -> Iterator[Job]:
        """Every stage that runs the model."""
        model, run, n = self.model, self.run, len(self.prompts)
        yield "census", self.census, len(self.grid.a), "pairs"
        residuals = partial(probe.residuals, model, [(torch.arange(n), self.tokens)], range(1), "bench")
        yield "residual streams", residuals, n, "prompts"
        yield "attribution", self.attribution, n, "prompts"
        yield "patching", partial(self.patching, candidates), n * candidates * len(run.late), "patches"
        average = partial(compute, model, run.tokenizer, [self.prompts])
        yield "mean cache", average, n, "prompts"
        yield "interventions", partial(self.ablate, average()), n, "prompts"
        yield "transfer", self.transfer, n * CIRCUITS, "transfers"
        neurons = {layer: np.arange(10) for layer in run.late}
        prompts, _ = grid_prompts(self.grid, run.tokenizer, self.template, "the bench's template")
        maps = partial(operand_maps, model, run.tokenizer, prompts, neurons)
        yield "activation maps", maps, len(self.grid.a), "pairs"


def measure(
    machine: Machine, tokenizer: PromptTokenizer, template: str, prompts: int, candidates: int
) -> Iterator[Row]:
    """Measure every stage that runs the model on one cell's prompts."""
    cell = _Cell(Run(machine.model, tokenizer, machine.model.config.n_layers // 2), template, prompts)
    row_fields = {"suite": "stages", "tokens": cell.length, "prompts": prompts}
    for stage, run, units, unit in cell.jobs(candidates):
        operations = matrix_operations(run) / units
        patched = candidates if stage == "patching" else 0
        yield machine.measure(run, units, operations, stage=stage, unit=unit, candidates=patched, **row_fields)
