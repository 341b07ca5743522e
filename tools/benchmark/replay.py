"""The speed of replay against the other ways to patch (`rivals`), on the same patches of the same model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmark.measure import Machine, Row, fastest, matrix_operations, replay_operations
from benchmark.rivals import RIVALS, Patch, Rival
from form_invariance.model.near_readout import near_readout
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.patching.compute import patch_neurons

_SCALE = 16.0
"""Factor of the patched values: the effects must be large compared with the rounding of log-probabilities."""


@dataclass(frozen=True)
class Method:
    """A way to patch a number of neurons in any late layer."""

    name: str
    batch: int  # rows; 0 = chosen by replay
    patch: Patch
    patches: int  # neurons in each layer
    operations: list[float]  # floating-point operations per patch, by late layer


class Patches:
    """The values of a corrupt prompt that are patched into a clean one, and the ways to do it."""

    def __init__(self, machine: Machine, tokens: Tensor, corrupt: Tensor, answers: Tensor) -> None:
        """Take a clean and a corrupt prompt (1, T) and the tokens of their answers (1, 2)."""
        self.machine, self.model, self.length = machine, machine.model, tokens.shape[1]
        self.late = range(self.model.config.n_layers // 2, self.model.config.n_layers)
        self.tokens, self.answers = tokens, answers
        self.cache = build_cache(self.model, self.tokens, self.late[0])
        self.near = near_readout(self.model, self.cache.residual[-1], machine.readouts)
        self.patch_values = (
            last_token_neurons(self.model, corrupt, self.late[0])[:, 0] * _SCALE
        )  # (late layers, m)

    def work(self, method: Method, layer: int) -> Callable[[], Tensor]:
        """The method's patches in one late layer; the result is their indirect effects."""
        return partial(method.patch, layer, self.patch_values[layer - self.late[0], : method.patches])

    def replay(self, patches: int) -> Method:
        """Replay of a number of patches in each layer."""

        def patch(layer: int, values: Tensor) -> Tensor:
            neurons = torch.arange(len(values), device=values.device)
            effects, _ = patch_neurons(
                self.model, self.cache, layer, neurons, values[None], self.answers, self.near
            )
            return effects[0]

        c = self.model.config
        method = Method("replay", 0, patch, patches, [])
        if self.near is None:
            above = [float(replay_operations(c, c.n_layers - layer - 1, self.length)) for layer in self.late]
        else:  # how many patches need the whole vocabulary depends on the patches
            above = [matrix_operations(self.work(method, layer)) / patches for layer in self.late]
        return replace(method, operations=above)

    def rival(self, name: str, rival: Rival, theirs: Any, candidates: int, hooked: int) -> Method:
        """A rival with the batch that is fastest in the first late layer."""
        operations = [float(rival.operations(self.model.config, self.length))] * len(self.late)
        methods = []
        for batch in rival.batches_for(self.length, candidates):
            patch = rival.start(theirs, self.tokens, self.answers, batch)
            methods.append(Method(name, batch, patch, min(candidates, max(batch, hooked)), operations))
        runs = [self.work(method, self.late[0]) for method in methods]
        seconds, _ = fastest(runs, self.machine.repeats, self.model.device)
        each = [spent / method.patches for spent, method in zip(seconds, methods, strict=True)]
        return methods[each.index(min(each))]

    def compare(self, theirs: Mapping[str, Any], candidates: int, hooked: int) -> Iterator[Row]:
        """Replay and its rivals by turns in every late layer; arguments and rows are those of `measure`."""
        methods = [self.replay(candidates)]
        methods += [self.rival(name, RIVALS[name], model, candidates, hooked) for name, model in theirs.items()]
        runs = {(method.name, layer): self.work(method, layer) for layer in self.late for method in methods}
        times, run_effects = fastest(list(runs.values()), self.machine.repeats, self.model.device)
        seconds, effects = dict(zip(runs, times, strict=True)), dict(zip(runs, run_effects, strict=True))
        for layers in (self.late[:1], self.late):
            spent = {
                method.name: sum(seconds[method.name, layer] for layer in layers) / method.patches
                for method in methods
            }
            for method in methods:
                pairs = [(effects[method.name, layer], effects["replay", layer]) for layer in layers]
                yield self.machine.row(
                    spent[method.name] * method.patches,
                    method.patches * len(layers),
                    sum(method.operations[: len(layers)]) / len(layers),
                    suite="replay",
                    stage=method.name,
                    unit="patches",
                    tokens=self.length,
                    candidates=method.patches,
                    layer=layers[0] if len(layers) == 1 else -1,
                    batch=method.batch,
                    speedup=spent[method.name] / spent["replay"],
                    difference=max(_difference(*pair) for pair in pairs),
                )


def _difference(theirs: Tensor, ours: Tensor) -> float:
    """Largest difference of two methods' effects of the same neurons, relative to the largest of `ours`."""
    return float((theirs - ours[: len(theirs)]).abs().max() / ours.abs().max())


@torch.no_grad()
def measure(
    machine: Machine, theirs: Mapping[str, Any], length: int, candidates: int, hooked: int
) -> Iterator[Row]:
    """Patch neurons of one prompt of random tokens in the first late layer, and in every late layer.

    Args:
        theirs: for each rival that is installed, the same model in its library.
        length: tokens of the prompt, with BOS.
        candidates: neurons to patch by replay in each layer; the rivals patch a batch of them.
        hooked: neurons to patch by one hooked pass each.

    Yields:
        Rows of replay and the rivals, in the first late layer and then as the mean over the late layers.
    """
    rng, device = torch.Generator().manual_seed(length), machine.model.device
    tokens, corrupt = (torch.randint(0, 1000, (1, length), generator=rng).to(device) for _ in range(2))
    answers = torch.tensor([[11, 12]], device=device)
    patches = Patches(machine, tokens, corrupt, answers)
    yield from patches.compare(theirs, candidates, hooked)
