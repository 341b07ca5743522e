"""The modules of a transformers model: what each computes, found by inspection and trial."""

from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from form_invariance.errors import UserError
from form_invariance.model.decoder import ACTIVATIONS, Norm

PLAIN: tuple[type, ...] = (Tensor, nn.Parameter)
"""Types of weights that are read; a subclass may compute something else."""
_LOW = 0.02
"""Largest error of a norm in 16 bits. The wrong weight (Gemma adds 1) or epsilon gives a far larger one."""


def quantised(where: str, why: str) -> UserError:
    """The refusal of a quantised model."""
    return UserError(
        f"{where}: the model is quantised ({why}), and quantised weights are not read; give the unquantised model"
    )


def unwrapped(module: Any) -> Any:
    """A module without the wrappers of torch.compile and of TransformerLens."""
    for wrapper in ("_orig_mod", "_original_component"):
        inner = getattr(module, wrapper, None)
        if isinstance(inner, nn.Module) and inner is not module:
            return unwrapped(inner)
    return module


class Modules:
    """A model's modules by their paths, such as `model.layers.0.mlp`."""

    def __init__(self, model: nn.Module, where: str, dtype: torch.dtype, device: torch.device) -> None:
        """Weights become views where device and precision are the model's; `where` names the model in messages."""
        self.model, self.where, self.device, self.dtype = model, where, device, dtype
        self.settings: dict[str, Any] = {}
        """Settings, which must be the same in all layers."""
        self._taken: dict[int, tuple[Tensor, Tensor]] = {}

    def find(self, path: str) -> Any:
        """The module or attribute at a path; None if there is none."""
        part: Any = self.model
        for name in path.split("."):
            part = unwrapped(part)
            part = part[int(name)] if name.isdecimal() else getattr(part, name, None)
            if part is None:
                return None
        return unwrapped(part)

    def get(self, path: str, *others: str) -> Any:
        """The module or attribute at the first of some paths that exists."""
        for part_path in (path, *others):
            if (part := self.find(part_path)) is not None:
                return part
        above, _, name = path.rpartition(".")
        return self.refuse(above, f"has no {name}")

    def attributes(self, path: str) -> set[str]:
        """The attributes of the module at a path, apart from those that torch and accelerate give every module."""
        module = self.get(path)
        names = {*vars(module), *module._parameters, *module._buffers, *module._modules} - {"training", "forward"}
        return {name for name in names if not name.startswith("_")}

    def refuse(self, path: str, what: str) -> NoReturn:
        """Refuse the model for what the module at a path is or does."""
        module = self.find(path) if path else unwrapped(self.model)
        location = f"{path} " if path else ""
        raise UserError(f"{self.where}: {location}({type(module).__name__}) {what}, which is not supported")

    def set(self, path: str, name: str, value: Any) -> Any:
        """Note a setting of the module at a path, which must be the same in all layers."""
        before = self.settings.setdefault(name, value)
        if before != value:
            self.refuse(path, f"has {name} {value!r:.40}, but another layer has {before!r:.40}")
        return value

    def weight(self, path: str) -> Tensor:
        """A weight, which must be a plain tensor of floats in memory."""
        weight = self.get(path)
        if not isinstance(weight, Tensor) or type(weight) not in PLAIN:
            raise UserError(
                f"{self.where}: {path!r} is a {type(weight).__name__}, not a plain tensor; give the model before "
                "it was quantised or distributed"
            )
        if weight.is_meta and self.device.type != "meta":
            raise UserError(
                f"{self.where}: weight {path!r} is not in memory (device meta); load the model without offloading"
            )
        if not weight.is_floating_point() or weight.itemsize == 1:
            raise quantised(self.where, f"weight {path!r} has type {weight.dtype}")
        # A tied weight has two names and one tensor. A tensor of inference mode has no gradients, so it is copied.
        if id(weight) not in self._taken:
            plain = weight.clone() if weight.is_inference() else weight.detach()
            self._taken[id(weight)] = weight, plain.to(self.device, self.dtype)
        return self._taken[id(weight)][1]

    def linear(self, path: str) -> tuple[Tensor, Tensor | None]:
        """The matrix (out, in) and the bias (out,) of a module that multiplies by a matrix."""
        module = self.get(path)
        if hasattr(module, "base_layer"):
            raise UserError(
                f"{self.where} has an adapter ({path}); merge it into the weights with peft's merge_and_unload"
            )
        # transformers.pytorch_utils has Conv1D, which stores the matrix transposed.
        if type(module) is not nn.Linear and type(module).__module__ != "transformers.pytorch_utils":
            self.refuse(path, "is not a plain matrix")
        weight = self.weight(f"{path}.weight")
        bias = None if module.bias is None else self.weight(f"{path}.bias")
        return weight if isinstance(module, nn.Linear) else weight.T, bias

    def norm(self, path: str) -> Norm | None:
        """The norm that a module computes: RMSNorm (Gemma's stored weight is the weight minus 1) or LayerNorm."""
        module = self.find(path)
        if module is None:
            return None
        epsilon = next((getattr(module, name) for name in ("variance_epsilon", "eps") if hasattr(module, name)), 0)
        weight = self.weight(f"{path}.weight")
        if weight.is_meta:
            return Norm(weight)
        bias = self.find(f"{path}.bias") is not None
        norms = [Norm(weight, self.weight(f"{path}.bias"))] if bias else [Norm(weight), Norm(weight + 1)]
        for norm in norms:
            if self._computes(module, norm, epsilon):
                self.set(path, "norm_epsilon", epsilon)
                return norm
        return self.refuse(path, f"is neither RMSNorm nor LayerNorm with epsilon {epsilon!r}")

    @torch.no_grad()
    def _computes(self, module: nn.Module, norm: Norm, epsilon: float) -> bool:
        """Whether a module computes this norm, on numbers so small that epsilon matters."""
        stored: Any = module.weight
        small = (torch.arange(len(norm.weight), device=stored.device).cos() + 0.5) * max(epsilon, 1e-12) ** 0.5
        small = small.to(stored.dtype)
        output, formula = module(small).float(), F.rms_norm if norm.bias is None else F.layer_norm
        expected = formula(small.float(), small.shape, eps=epsilon) * norm.weight.to(small.device).float()
        if norm.bias is not None:
            expected = expected + norm.bias.to(small.device).float()
        low = min(stored.itemsize, norm.weight.itemsize) < 4
        return bool((output - expected).abs().max() <= (_LOW if low else 1e-5) * expected.abs().max())

    @torch.no_grad()
    def activation(self, path: str, *others: str) -> None:
        """Note the activation function that a module computes."""
        module = self.get(path, *others)
        x = torch.linspace(-6, 6, 121, dtype=torch.float32)
        for name, function in ACTIVATIONS.items():
            if torch.allclose(module(x), function(x), rtol=0, atol=2e-6):
                self.set(path.rpartition(".")[0], "activation", name)
                return
        name = getattr(module, "__name__", type(module).__name__)
        self.refuse(path.rpartition(".")[0], f"has the activation {name}")

    def frequencies(self, path: str, kind: str = "") -> Tensor:
        """Inverse frequencies (r/2,) of a rotary embedding.

        Args:
            kind: the layer's kind, in models with one embedding for each kind.
        """
        prefix = "" if self.find(f"{path}.inv_freq") is not None else f"{kind}_"
        inverse, scaling = (self.get(f"{path}.{prefix}{name}") for name in ("inv_freq", "attention_scaling"))
        types = self.find(f"{path}.rope_type")
        rope = types.get(kind) if isinstance(types, dict) else types
        if scaling != 1 or "dynamic" in str(rope) or "longrope" in str(rope):
            self.refuse(path, f"has rope scaling {rope!r} with attention_scaling {scaling:g}")
        return inverse.detach().float().to(self.device)
