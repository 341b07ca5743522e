"""The speed of replay against hooked forward passes of TransformerLens, one pass per neuron."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from form_invariance.bench.measure import Machine, Row, pass_operations, replay_operations
from form_invariance.model.indirect_effect import indirect_effect
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.model.transformer_lens_bridge import neurons_at
from form_invariance.stages.patching.compute import patch_neurons


def _hooked_effects(bridge: Any, tokens: Tensor, answers: Tensor, layer: int, values: Tensor) -> Tensor:
    """Indirect effects (neurons,) of one prompt, by one hooked forward pass per neuron."""

    def log_probabilities(hooks: list[tuple[str, Callable[..., Tensor]]]) -> Tensor:
        z: Tensor = bridge.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1]
        return z.float().log_softmax(-1).gather(1, answers)[0]

    clean = log_probabilities([])
    moved = []
    for neuron, value in enumerate(values):

        def patch(activation: Tensor, hook: object, neuron: int = neuron, value: Tensor = value) -> Tensor:
            activation[:, -1, neuron] = value
            return activation

        moved.append(log_probabilities([(neurons_at(layer), patch)]) - clean)
    change = torch.stack(moved)
    return indirect_effect(change[:, 1], change[:, 0])


@torch.no_grad()
def measure(machine: Machine, bridge: Any, length: int, candidates: int, hooked: int) -> tuple[Row, Row]:
    """Patch neurons of the first late layer (the slowest one for replay) in one prompt.

    Args:
        bridge: the same model in TransformerLens.
        length: tokens of the prompt, with BOS.
        candidates: number of neurons to patch by replay.
        hooked: number of these neurons to patch by hooked forward passes too.

    Returns:
        The hooked forward passes, and replay with its speed-up over them and the largest difference.
    """
    model, c = machine.model, machine.model.config
    first = c.n_layers // 2
    rng = torch.Generator().manual_seed(length)
    tokens, corrupt = (torch.randint(0, 1000, (1, length), generator=rng).to(model.device) for _ in range(2))
    answers = torch.tensor([[11, 12]], device=model.device)
    cache = build_cache(model, tokens, first)
    given = last_token_neurons(model, corrupt, first)[0]
    chosen = torch.arange(candidates, device=model.device)

    def run_replay() -> Tensor:
        return patch_neurons(model, cache, first, chosen, given[:, :candidates], answers)

    def run_hooked() -> Tensor:
        return _hooked_effects(bridge, tokens, answers, first, given[0, :hooked])

    difference = (run_replay()[0, :hooked] - run_hooked()).abs().max().item()
    row: Row = {"suite": "replay", "unit": "patches", "tokens": length, "layer": first}
    passes, operations = hooked + 1, pass_operations(c, length)  # one pass is the clean one
    full = machine.measure(run_hooked, passes, operations, stage="hooked forward", candidates=hooked, **row)
    operations = replay_operations(c, c.n_layers - first - 1, length)
    fast = machine.measure(run_replay, candidates, operations, stage="replay", candidates=candidates, **row)
    speedup = full["seconds"] / full["units"] / (fast["seconds"] / fast["units"])
    return full, {**fast, "speedup": speedup, "difference": difference}
