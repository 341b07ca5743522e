"""How the time of exact patching (stage 2) depends on prompt length, candidates, prompts and layer."""

from collections.abc import Iterator, Sequence

import torch

from form_invariance.bench.measure import Machine, Row, replay_operations
from form_invariance.model.readouts import Readouts
from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.patching.compute import patch_layers

LENGTHS = (5, 12, 19, 26)
PROMPTS = (1, 2, 4, 8)


def _patch(
    machine: Machine, varied: str, tokens: int, prompts: int, candidates: int, layers: Sequence[int]
) -> Row:
    """Stage 2 without reading the model: corrupt activations, caches, and patches in some layers."""
    model, c = machine.model, machine.model.config
    first = c.n_layers // 2
    rng = torch.Generator().manual_seed(tokens)
    clean, corrupt = (torch.randint(0, 1000, (prompts, tokens), generator=rng).to(model.device) for _ in range(2))
    answers = torch.tensor([11, 12], device=model.device).expand(1, prompts, 2)
    chosen = {layer: torch.arange(candidates, device=model.device) for layer in layers}

    def run() -> None:
        given = last_token_neurons(model, corrupt, first)[None]
        patch_layers(model, clean, first, chosen, given, answers, lambda _: None, Readouts(full=True))

    above = [replay_operations(c, c.n_layers - layer - 1, tokens) for layer in layers]
    return machine.measure(
        run,
        prompts * candidates * len(layers),
        sum(above) / len(above),
        suite="cost",
        stage=varied,
        unit="patches",
        tokens=tokens,
        prompts=prompts,
        candidates=candidates,
        layer=layers[0] if len(layers) == 1 else -1,
    )


@torch.no_grad()
def measure(machine: Machine, candidates: int) -> Iterator[Row]:
    """Vary one quantity at a time, starting from 26 tokens, one prompt, `candidates` neurons, all late layers."""
    layers = machine.model.config.n_layers
    late = range(layers // 2, layers)
    for tokens in LENGTHS:
        yield _patch(machine, "tokens", tokens, 1, candidates, late)
    for part in (8, 4, 2, 1):
        yield _patch(machine, "candidates", LENGTHS[-1], 1, max(1, candidates // part), late)
    for prompts in PROMPTS:
        yield _patch(machine, "prompts", LENGTHS[-1], prompts, max(1, candidates // PROMPTS[-1]), late)
    for layer in late:
        yield _patch(machine, "layer", LENGTHS[-1], 1, candidates, [layer])
