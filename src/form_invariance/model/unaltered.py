"""Whether a model in memory runs nothing but the code of its libraries.

A proof on one text cannot show what a hook does on other texts, so nothing may change a module's result.
"""

import inspect
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_modules
from torch.nn.utils.parametrize import is_parametrized

from form_invariance.errors import UserError

_LIBRARIES = ("torch", "transformers", "transformer_lens")
_RECORDERS = ("transformers.utils.output_capturing", "transformer_lens.model_bridge.generalized_components.block")
"""Modules whose hooks only record: transformers' record hidden states; a bridge's call its hook points."""


def check(where: str, *models: nn.Module) -> None:
    """Check that the modules of models run the code of torch, transformers and TransformerLens alone.

    Raises:
        UserError: a hook, parametrization, replaced function or class of the user changes what a module computes.
    """
    if torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks:
        raise UserError(f"{where}: torch runs a global forward hook in every module; remove it")
    for model in models:
        for path, module in model.named_modules():
            if what := _alteration(module):
                name = f"{path} ({type(module).__name__})".lstrip()
                raise UserError(f"{where}: {name} has {what}, which this engine would not run; remove it")
        config = getattr(model, "config", None)
        if attention := _attention_of_user(getattr(config, "_attn_implementation", None)):
            raise UserError(f"{where}: attention is the user's {attention!r}; load the model with 'sdpa'")


def _library(function: Any) -> bool:
    """Whether a function, and each function that it wraps, is code of a library, whatever module it claims."""
    while function is not None:
        module = getattr(function, "__globals__", {}).get("__name__", getattr(function, "__module__", None))
        if str(module).partition(".")[0] not in _LIBRARIES:
            return False
        function = getattr(function, "__wrapped__", None)
    return True


def _alteration(module: nn.Module) -> str | None:
    """What changes a module's result beyond the code of its libraries."""
    for name, hooks in (("hook", module._forward_hooks), ("pre-hook", module._forward_pre_hooks)):
        if not all(map(_harmless, hooks.values())):
            return f"a forward {name}"
    if is_parametrized(module):
        return "a parametrization"
    compiled = type(module).__module__ == "torch._dynamo.eval_frame" or _compiled(module)
    if "forward" in vars(module) and not compiled and not _moved(module):
        return "a replaced forward"
    for function in (type(module).forward, type(module).__call__):
        if not _library(function):
            return f"code of {inspect.unwrap(function).__module__}"
    return None


def _harmless(hook: Any) -> bool:
    """Whether a hook records, or switches gradients on."""
    gradients = getattr(hook, "__name__", "") == "make_inputs_require_grads" and _library(hook)
    return gradients or getattr(hook, "__module__", None) in _RECORDERS


def _compiled(module: nn.Module) -> bool:
    """Whether a module's forward is its own, compiled."""
    original = getattr(vars(module).get("forward"), "_torchdynamo_orig_callable", None)
    return original is not None and getattr(original, "__func__", None) is type(module).forward


def _moved(module: nn.Module) -> bool:
    """Whether accelerate replaced a module's forward, in order to move its input to its device."""
    hook, before = (getattr(module, name, None) for name in ("_hf_hook", "_old_forward"))
    new = getattr(vars(module)["forward"], "func", None)
    return (
        (type(hook).__module__, type(hook).__name__) == ("accelerate.hooks", "AlignDevicesHook")
        and getattr(new, "__module__", None) == "accelerate.hooks"
        and getattr(before, "__func__", None) is type(module).forward
    )


def _attention_of_user(name: str | None) -> str | None:
    """The name of an attention function that is not transformers'."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    function = ALL_ATTENTION_FUNCTIONS.get(name) if name else None
    return name if function is not None and not _library(function) else None
