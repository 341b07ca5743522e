"""The proof that a model was read right: its modules against this engine, each on the module's own input."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.decoder import Decoder, after_neurons, attention, embed, finish_layer, logits, neurons
from form_invariance.model.families import family_of
from form_invariance.model.modules import Modules
from form_invariance.model.precision import precision_of

_TOKENS = 16
"""Tokens over which an error is averaged; also those compared in modules that compute every token by itself."""
_LAYER = {torch.bfloat16: 0.09, torch.float16: 0.0125, torch.float32: 1e-4}
"""Limit for the error of what a layer or its attention writes, relative to what it writes. The largest measured
error is 1.9e-2 in bfloat16, 2.2e-3 in float16 and 4e-7 in float32."""
_ONE_STEP = 0.25
"""Share of the limit for an MLP, the embedding and the logits, which round less (bfloat16: measured 4.3e-3)."""

Seen = dict[str, tuple[Tensor, Tensor]]
"""The input and the output of modules, by path."""


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Switch dropout off; afterwards each module has its former mode."""
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _watched(modules: Modules, paths: list[str], decoder: Decoder) -> Iterator[Seen]:
    """What modules read and write while the model runs, in the engine's precision and on its device."""
    seen: Seen = {}
    form = decoder.device, decoder.dtype

    def watch(path: str) -> Any:
        def hook(_: object, arguments: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
            read: Any = arguments[0] if arguments else named.get("hidden_states")
            wrote: Any = made if isinstance(made, Tensor) else made[0]
            seen[path] = read.to(*form), wrote.to(*form)

        return modules.get(path).register_forward_hook(hook, with_kwargs=True)

    with ExitStack() as hooks:
        for path in paths:
            hooks.callback(watch(path).remove)
        yield seen


def check(model: nn.Module, decoder: Decoder, where: str) -> None:
    """Check that the engine computes what the modules of a model compute on a text as long as a prompt may be.

    Args:
        model: the model from whose modules `decoder` was read, or a wrapper that runs it.
        decoder: the engine's model, in the same precision, because two precisions round differently.
        where: the model's name for messages.

    Raises:
        UserError: a module differs by more than the precision explains; the first one is named.
    """
    c, first = decoder.config, next(model.parameters())
    modules = Modules(getattr(model, "original_model", model), where, decoder.dtype, decoder.device)
    family = family_of(modules)
    layers = [f"{family.layers}.{number}" for number in range(c.n_layers)]
    inner = [f"{layer}.{name}" for layer in layers for name in (family.attention, "mlp")]
    tokens = (torch.arange(c.longest)[None] * 7919 + 3) % c.vocabulary
    with precision_of(replace(decoder, tf32=False)), torch.no_grad():
        with (
            in_one_sentence(f"{where} cannot be run by transformers"),
            _evaluated(model),
            _watched(modules, layers + inner, decoder) as seen,
        ):
            output: Any = model(tokens.to(first.device))
        theirs = getattr(output, "logits", output).to(decoder.device)
        if not theirs.isfinite().all():
            raise UserError(f"{where}: its logits are not finite numbers; use dtype float32, or another model")
        for layer in layers:
            if layer not in seen:
                modules.refuse(layer, "does not run")
        sample = torch.linspace(0, c.longest - 1, min(_TOKENS, c.longest), device=decoder.device).long()
        embedded = embed(decoder, tokens.to(decoder.device))
        _compare(modules, family.embedding, embedded, seen[layers[0]][0], _ONE_STEP)
        for number, layer in enumerate(layers):
            following = seen[layers[number + 1]][0] if number + 1 < c.n_layers else seen[layer][1]
            paths = layer, f"{layer}.{family.attention}"
            _check_layer(modules, decoder, number, paths, seen, following[:, sample], sample)
        _compare(modules, family.final_norm, logits(decoder, following[:, sample]), theirs[:, sample], _ONE_STEP)


def _check_layer(
    modules: Modules,
    decoder: Decoder,
    number: int,
    paths: tuple[str, str],
    seen: Seen,
    following: Tensor,
    sample: Tensor,
) -> None:
    """Check a layer's attention, its MLP, and then what the next layer reads.

    Args:
        following: what the next layer reads at some tokens, (1, n, d).
        sample: these tokens, (n,).
    """
    (layer, at), w = paths, decoder.layers[number]
    x, mlp = seen[layer][0], f"{layer}.mlp"
    heads = attention(decoder, number, x)[0]
    # A bridge computes attention and MLP itself.
    if at in seen:
        _compare(modules, at, F.linear(heads.flatten(-2), w.output, w.output_bias), seen[at][1])
    if mlp in seen:
        bare = replace(decoder, layers=[replace(w, mlp_norm=None, mlp_post_norm=None)])
        read, wrote = (tensor[:, sample] for tensor in seen[mlp])
        ours = after_neurons(bare, 0, torch.zeros_like(read), neurons(bare, 0, read))
        _compare(modules, mlp, ours, wrote, _ONE_STEP)
    x = x[:, sample]
    after = finish_layer(decoder, number, x, heads[:, sample], None, None)
    # The sum itself is rounded.
    rounding = torch.finfo(following.dtype).eps * _sizes(x)
    _compare(modules, layer, after, following, sizes=_sizes(following.float() - x.float()) + rounding)


def _sizes(x: Tensor) -> Tensor:
    """Root mean squares of x (1, T, d), one for every `_TOKENS` tokens."""
    squares = x.float().square().mean(-1)[0]
    return torch.stack([part.mean() for part in squares.split(_TOKENS)]).sqrt()


def _compare(
    modules: Modules, path: str, ours: Tensor, theirs: Tensor, part: float = 1, sizes: Tensor | None = None
) -> None:
    """Refuse the model if the engine's output differs from a module's by more than `part` of the limit."""
    differences, sizes = _sizes(ours.float() - theirs.float()), _sizes(theirs) if sizes is None else sizes
    # Equal zeros are no difference.
    error = float(torch.where(differences == 0, 0, differences / sizes).max())
    if not error <= part * _LAYER[modules.dtype]:
        modules.refuse(path, f"computes what this engine does not: its output differs by {error:.2g} of its size")
