"""Other ways to patch one neuron at a time at the last token, as users of these libraries would write them.

- One hooked pass: TransformerLens runs the whole prompt, once for each neuron.
- Batched hooks: the same, with a batch of copies of the prompt and another neuron patched in each.
- nnsight: the same batches on Hugging Face's model, patched in traces; left out if nnsight is not installed.
- Cached last token: Hugging Face's model runs the last token alone, in a batch, from a key/value cache of the
  earlier tokens; a hook before the down-projection patches another neuron in each row.

All of them begin at layer 0, and compute the logits of the last token only.
"""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmark.measure import pass_operations, replay_operations
from form_invariance.beyond.engine_check.transformer_lens_bridge import boot, neurons_at
from form_invariance.experiment.indirect_effect import indirect_effect
from form_invariance.model.sizes import DecoderConfig

Patch = Callable[[int, Tensor], Tensor]
"""Indirect effects (n,) of the first n neurons of a layer, each set to its value (n,) alone."""


@dataclass(frozen=True)
class Rival:
    """A way to patch, and the batches that it may use."""

    description: str
    start: Callable[[Any, Tensor, Tensor, int], Patch]  # of model, tokens (1, T), answers (1, 2), rows of a batch
    operations: Callable[[DecoderConfig, int], int]  # floating-point operations per patch in a prompt of T tokens
    batches: tuple[int, ...]
    longest: int  # most tokens in a batch, so that it fits into the memory and takes seconds

    def batches_for(self, tokens: int, candidates: int) -> list[int]:
        """The batches that are not too long for prompts of this length, nor larger than the candidates."""
        fitting = [rows for rows in self.batches if rows * tokens <= self.longest and rows <= candidates]
        return fitting or [self.batches[0]]


def _answers(logits: Tensor, answers: Tensor) -> Tensor:
    """Log-probabilities (n, 2) of the answers (1, 2) after the last of T tokens, from logits (n, T, V)."""
    return logits[:, -1].float().log_softmax(-1)[:, answers[0]]


def _set_neurons(activation: Tensor, start: int, values: Tensor) -> None:
    """Set neuron start + i to values[i] at the last token of row i, in activations (rows, T, m)."""
    rows = torch.arange(len(values), device=values.device)
    activation[rows, -1, start + rows] = values


def _effects(patched: list[Tensor], clean: Tensor) -> Tensor:
    """Indirect effects (n,) from pieces of patched log-probabilities (., 2) and the clean ones (1, 2)."""
    change = torch.cat(patched) - clean
    return indirect_effect(change[:, 1], change[:, 0])


def hooked_passes(bridge: Any, tokens: Tensor, answers: Tensor, batch: int) -> Patch:
    """Hooks of TransformerLens on batches of whole prompts."""
    clean = _answers(bridge(tokens, logits_to_keep=1), answers)

    def run(layer: int, values: Tensor) -> Tensor:
        patched = []
        for start in range(0, len(values), batch):
            piece = values[start : start + batch]

            def patch(activation: Tensor, hook: object, start: int = start, piece: Tensor = piece) -> Tensor:
                _set_neurons(activation, start, piece)
                return activation

            hooks = [(neurons_at(layer), patch)]
            z = bridge.run_with_hooks(tokens.expand(len(piece), -1).clone(), fwd_hooks=hooks, logits_to_keep=1)
            patched.append(_answers(z, answers))
        return _effects(patched, clean)

    return run


def cached_last_token(model: Any, tokens: Tensor, answers: Tensor, batch: int) -> Patch:
    """Hugging Face's forward pass of the last token from a key/value cache that is repeated for each row."""
    from transformers import DynamicCache

    clean = _answers(model(tokens, logits_to_keep=1).logits, answers)
    cache = DynamicCache(config=model.config)
    model(tokens[:, :-1], past_key_values=cache, logits_to_keep=1)
    cache.batch_repeat_interleave(batch)
    last = tokens[:, -1:].expand(batch, 1)

    def run(layer: int, values: Tensor) -> Tensor:
        patched = []
        for start in range(0, len(values), batch):
            piece = values[start : start + batch]

            def patch(_: object, inputs: tuple[Tensor], start: int = start, piece: Tensor = piece) -> None:
                _set_neurons(inputs[0], start, piece)

            handle = model.get_submodule(_down_projection(model, layer)).register_forward_pre_hook(patch)
            z = model(last, past_key_values=cache).logits
            handle.remove()
            cache.crop(-1)
            patched.append(_answers(z[: len(piece)], answers))
        return _effects(patched, clean)

    return run


def nnsight_traces(model: Any, tokens: Tensor, answers: Tensor, batch: int) -> Patch:
    """Traces of nnsight on batches of whole prompts of Hugging Face's model."""
    traced = importlib.import_module("nnsight").NNsight(model)
    clean = _answers(model(tokens, logits_to_keep=1).logits, answers)

    def run(layer: int, values: Tensor) -> Tensor:
        down, patched = traced.get(_down_projection(model, layer)), []
        for start in range(0, len(values), batch):
            piece = values[start : start + batch]
            with traced.trace(tokens.expand(len(piece), -1), logits_to_keep=1):
                _set_neurons(down.input, start, piece)
                z = traced.output.logits.save()
            patched.append(_answers(z, answers))
        return _effects(patched, clean)

    return run


def _down_projection(model: torch.nn.Module, layer: int) -> str:
    """Path of the module whose input is the neurons of a layer's MLP, by the names of all supported families."""
    name = re.compile(rf"\.{layer}\.mlp\.(down_proj|c_proj|dense_4h_to_h)$")
    return next(path for path, _ in model.named_modules() if name.search(path))


def _last_token_operations(c: DecoderConfig, tokens: int) -> int:
    return replay_operations(c, c.n_layers, tokens)


RIVALS = {
    "cached last token": Rival(
        "a batched last token from a key/value cache",
        cached_last_token,
        _last_token_operations,
        (64, 256, 1024),
        2**16,
    ),
    "batched hooks": Rival("batched hooks", hooked_passes, pass_operations, (16, 64, 256), 2**13),
    "nnsight": Rival("batches in nnsight", nnsight_traces, pass_operations, (16, 64, 256), 2**13),
    "one hooked pass": Rival("one hooked pass per neuron", hooked_passes, pass_operations, (1,), 2**13),
}
"""Rivals by name, the strongest first."""


def load(folder: Path, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """The model, loaded with the library of each rival that is installed."""
    bridge = boot(folder, dtype, device)
    from transformers import AutoModelForCausalLM

    hugging_face = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
    models = dict.fromkeys(RIVALS, bridge) | {"cached last token": hugging_face, "nnsight": hugging_face}
    try:
        importlib.import_module("nnsight")
    except ImportError:
        print("nnsight is not installed, so bench does not measure it")
        del models["nnsight"]
    return models
