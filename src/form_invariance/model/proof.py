"""The proof that a model was read right: this engine's logits against those of the transformers model itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.decoder import Decoder, attention, embed, logits, run_layers
from form_invariance.model.families import family_of
from form_invariance.model.modules import Modules
from form_invariance.model.precision import precision_of

_TOKENS = 8
_TOLERANCE = {8: 1e-4, 4: 1e-4, 2: 0.25}
"""Largest difference of two logits relative to the largest logit, by the bytes of a weight.

In float32 the largest that was measured is 2e-6. A number of 16 bits is rounded by 2^-9 at each step."""


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """Switch dropout off; afterwards each module has its former mode."""
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def check(model: nn.Module, decoder: Decoder, where: str) -> None:
    """Check that the engine and the model give the same logits on a few tokens.

    Args:
        model: the model from whose modules `decoder` was read, or a wrapper that runs it.
        where: the model's name for messages.

    Raises:
        UserError: they differ by more than the precision explains; the first module that differs is named.
    """
    c, weights = decoder.config, list(model.parameters())
    tokens = (torch.arange(min(_TOKENS, c.longest or _TOKENS))[None] * 7919 + 3) % c.vocabulary
    with precision_of(replace(decoder, tf32=False)), torch.no_grad():
        with in_one_sentence(f"{where} cannot be run by transformers"), evaluated(model):
            found: Any = model(tokens.to(weights[0].device))
        theirs = getattr(found, "logits", found).float().to(decoder.device)
        ours = logits(decoder, run_layers(decoder, embed(decoder, tokens.to(decoder.device))))
    size = min(decoder.embedding.itemsize, *(weight.itemsize for weight in weights))
    error, tolerance = _distance(ours, theirs), _TOLERANCE[size]
    if not theirs.isfinite().all():
        raise UserError(f"{where}: its logits are not finite numbers; use dtype float32, or another model")
    if not error <= tolerance:
        raise UserError(
            f"{where}: this engine's logits differ from the model's own by {error:.2g} of the largest, first in "
            f"{_first_difference(model, decoder, tokens, tolerance)}, so the model computes something that this "
            "engine does not"
        )


def _distance(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference, relative to the largest value."""
    return float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max())


def _first_difference(model: nn.Module, decoder: Decoder, tokens: Tensor, tolerance: float) -> str:
    """The first module whose output the engine does not get from the same input."""
    inner: Any = getattr(model, "original_model", model)
    modules = Modules(inner, "", decoder.dtype, decoder.device)
    family, seen = family_of(modules), {}

    def watch(path: str) -> Any:
        def hook(_: object, given: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
            one: Any = given[0] if given else named.get("hidden_states")
            seen[path] = [x.to(decoder.device) for x in (one, made if isinstance(made, Tensor) else made[0])]

        return modules.get(path).register_forward_hook(hook, with_kwargs=True)

    def named(path: str) -> str:
        return f"{path} ({type(modules.get(path)).__name__})"

    layers = [f"{family.layers}.{number}" for number in range(decoder.config.n_layers)]
    watched = [*layers, *(f"{layer}.{family.attention}" for layer in layers)]
    handles = [watch(path) for path in watched]
    try:
        with evaluated(model):
            model(tokens.to(next(model.parameters()).device))
    finally:
        for handle in handles:
            handle.remove()
    before = embed(decoder, tokens.to(decoder.device))
    for number, path in enumerate(layers):
        if path not in seen:
            return f"{path}, which does not run"
        x, after = seen[path]
        if number == 0 and _distance(before, x) > tolerance:
            return named(family.embedding)
        w, x = decoder.layers[number], x.to(decoder.dtype)
        heads, at = attention(decoder, number, x)[0], f"{path}.{family.attention}"
        written = F.linear(heads.flatten(-2), w.output, w.output_bias)
        if at in seen and _distance(written, seen[at][1]) > tolerance:
            return named(at)
        if _distance(run_layers(decoder, x, number, number + 1), after) > tolerance:
            return named(path)
    return "what follows the layers"
