"""The throughput of each stage on one cell, in prompts, patches or pairs per second."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

from form_invariance.bench.measure import (
    Machine,
    Measurement,
    pass_operations,
    replay_operations,
    unembedding_operations,
)
from form_invariance.model.prefixes import plan
from form_invariance.model.readout import Readout
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer, render
from form_invariance.randomness import generator
from form_invariance.stages.attribution.compute import attribute
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.stages.heads.compute import measure_cell
from form_invariance.stages.heuristics.activations import operand_maps
from form_invariance.stages.heuristics.pairs import make_grid
from form_invariance.stages.interventions import compute as interventions
from form_invariance.stages.interventions.sets import NeuronSet
from form_invariance.stages.mean_cache.compute import MeanCache, compute
from form_invariance.stages.patching.compute import patch_layers
from form_invariance.stages.probe import compute as probe
from form_invariance.stages.run import Run
from form_invariance.stages.transfer.compute import transfer_neurons

CIRCUITS = 6
"""Number of circuits in transfer and of sets in interventions (the paper's grid has about sixty)."""

Job = tuple[str, Callable[[], object], int, str, float]
"""Stage, function, number of units, unit, and floating-point operations per unit."""


def _problems(prompts: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs of operands (at most 90,000)."""
    places = generator(0, "bench").permutation(300 * 300)[:prompts]
    return places // 300 + 100, places % 300 + 100


class _Cell:
    """The prompts of one cell, and one method per stage."""

    def __init__(
        self, machine: Machine, tokenizer: PromptTokenizer, template: str, prompts: int, candidates: int
    ) -> None:
        self.model, self.tokenizer, self.template = machine.model, tokenizer, template
        c, device = self.model.config, self.model.device
        self.first, self.candidates = c.n_layers // 2, candidates
        self.late = range(self.first, c.n_layers)
        self.width = max(2, int(prompts**0.5))
        a, b = self.operands = _problems(prompts)
        self.prompts = [render(template, *pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
        self.tokens = torch.from_numpy(tokenizer.encode_batch(self.prompts)).to(device)
        right = torch.from_numpy(tokenizer.number_tokens(a + b)).to(device)
        self.answers = torch.stack([right, right.roll(1)], dim=1)
        rng = generator(0, "bench-circuits")
        self.members = rng.random((CIRCUITS, len(self.late), c.d_mlp)) < 0.1

    @property
    def length(self) -> int:
        return int(self.tokens.shape[1])

    def census(self) -> None:
        limits = OperandRange(100, 99 + self.width, 0, 999)
        take_census(self.model, self.tokenizer, self.template, "addition", "a + b", limits, None, seed=0)

    def attribution(self) -> None:
        given = last_token_neurons(self.model, self.tokens.roll(1, 0), self.first)
        attribute(self.model, self.tokens, given, self.answers, self.first)

    def patching(self) -> None:
        given = last_token_neurons(self.model, self.tokens.roll(1, 0), self.first)[None]
        chosen = {layer: torch.arange(self.candidates, device=self.model.device) for layer in self.late}
        with torch.no_grad():
            patch_layers(self.model, self.tokens, self.first, chosen, given, self.answers[None], lambda _: None)

    def head_patching(self) -> None:
        operands = torch.from_numpy(np.stack([self.tokenizer.number_tokens(one) for one in self.operands], axis=1))
        partners = [self.prompts[-1], *self.prompts[:-1]]
        train = TrainPrompts(self.tokens, [partners], self.answers[None], operands.to(self.tokens.device))
        measure_cell(self.model, self.tokenizer, train, lambda _: None)

    def average(self) -> MeanCache:
        return compute(self.model, self.tokenizer, [self.prompts])

    def ablate(self, means: MeanCache) -> list[tuple[str, str, Readout]]:
        sets = [NeuronSet("circuit", k, 0, one) for k, one in enumerate(self.members)]
        run = Run(self.model, self.tokenizer, self.first)
        return list(interventions.run_cell(run, self.tokens, self.answers[:, 0], sets, means, center=True))

    @torch.no_grad()
    def transfer(self) -> None:
        cache = build_cache(self.model, self.tokens, self.first)
        donors = last_token_neurons(self.model, self.tokens.roll(1, 0), self.first)
        masks = torch.from_numpy(self.members).to(self.model.device)
        transfer_neurons(self.model, cache, donors, masks, self.answers[:, 0], center=True)

    def residual_streams(self) -> None:
        probe.residuals(self.model, {0: self.tokens}, range(1), "bench")

    def activation_maps(self) -> None:
        neurons = {layer: np.arange(10) for layer in self.late}
        operand_maps(self.model, self.tokenizer, self.template, make_grid("a + b", self.width), neurons)

    def share_of_grid(self) -> float:
        """Share of the tokens of all pairs' prompts that run; shared prefixes run once."""
        grid = make_grid("a + b", self.width)
        pairs = zip(grid.a.tolist(), grid.b.tolist(), strict=True)
        tokens = self.tokenizer.encode_batch([render(self.template, *pair) for pair in pairs])
        return plan(tokens).tokens / tokens.size

    def jobs(self) -> Iterator[Job]:
        """Every stage that runs the model, with the operations that it needs."""
        c, n, layers, length = self.model.config, len(self.prompts), len(self.late), self.length
        whole = pass_operations(c, length)
        inside = whole - unembedding_operations(c)
        late = pass_operations(c, length, layers)
        one = replay_operations(c, layers, length)
        patch = sum(replay_operations(c, c.n_layers - 1 - at, length) for at in self.late) / layers
        grid = inside * self.share_of_grid()
        yield "census", self.census, self.width**2, "pairs", grid + unembedding_operations(c)
        yield "residual streams", self.residual_streams, n, "prompts", inside
        # Clean and corrupt pass, then the last token forward and backward. Weights have no gradients.
        yield "attribution", self.attribution, n, "prompts", 2 * inside + 2 * one
        yield "patching", self.patching, n * self.candidates * layers, "patches", patch
        # The layer of the patched head is replayed too.
        head = sum(replay_operations(c, c.n_layers - at, length) for at in range(c.n_layers)) / c.n_layers
        yield "head patching", self.head_patching, n * c.n_layers * c.n_heads, "patches", head
        yield "mean cache", self.average, n, "prompts", inside
        means = self.average()
        ablations = 2 * CIRCUITS * (late + one) + 2 * whole
        yield "interventions", lambda: self.ablate(means), n, "prompts", ablations
        yield "transfer", self.transfer, n * CIRCUITS, "transfers", one + 2 * inside / CIRCUITS
        yield "activation maps", self.activation_maps, self.width**2, "pairs", grid


def measure(
    machine: Machine, tokenizer: PromptTokenizer, template: str, prompts: int, candidates: int
) -> Iterator[Measurement]:
    """Measure every stage that runs the model on one cell's prompts."""
    cell = _Cell(machine, tokenizer, template, prompts, candidates)
    for stage, run, units, unit, operations in cell.jobs():
        yield machine.measure(
            run,
            units,
            operations,
            suite="stages",
            stage=stage,
            unit=unit,
            tokens=cell.length,
            prompts=prompts,
            candidates=candidates if stage == "patching" else 0,
        )
