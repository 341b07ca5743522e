"""A model's sizes, from config.json, and the settings of its forward pass. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.json_yaml import read_json

PROVEN = 512
"""Tokens of the text on which a model is compared with transformers'. Attention may differ at later positions."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model."""

    n_layers: int
    d_model: int
    d_mlp: int
    n_heads: int
    n_key_value_heads: int
    d_head: int
    vocabulary: int
    gated: bool = True
    """The MLP has a gate as well as an up-projection."""
    tied: bool = False
    """The unembedding is the embedding."""

    @property
    def layer_parameters(self) -> int:
        """Number of parameters in the matrices of one layer."""
        attention = 2 * self.d_model * self.d_head * (self.n_heads + self.n_key_value_heads)
        return attention + (3 if self.gated else 2) * self.d_model * self.d_mlp

    @property
    def parameters(self) -> int:
        """Number of parameters in all matrices."""
        return self.n_layers * self.layer_parameters + (2 - self.tied) * self.vocabulary * self.d_model


@dataclass(frozen=True)
class DecoderConfig(Sizes):
    """Sizes and settings that the forward pass needs. The defaults are Llama's."""

    norm_epsilon: float = 1e-6
    activation: str = "silu"
    parallel: bool = False
    """Attention and MLP read the same residual stream."""
    attention_scale: float | None = None
    """Factor of the attention scores; None means 1 / sqrt(d_head)."""
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    embedding_scale: float = 1.0
    longest: int = PROVEN
    """Length limit of a prompt in tokens: `PROVEN`, or fewer learned positions, or a shorter sliding window."""

    @property
    def score_scale(self) -> float:
        """Factor of the attention scores."""
        return self.d_head**-0.5 if self.attention_scale is None else self.attention_scale


_LARGEST = 2**40
"""Limit for every number in a config.json; a larger one is a mistake."""
_NAMES = {
    "n_layers": ("num_hidden_layers", "n_layer"),
    "d_model": ("hidden_size", "n_embd"),
    "n_heads": ("num_attention_heads", "n_head"),
    "vocabulary": ("vocab_size",),
    "d_mlp": ("intermediate_size", "n_inner"),
    "n_key_value_heads": ("num_key_value_heads",),
    "d_head": ("head_dim",),
}
"""Names of the sizes in config.json."""
_NO_GATE = ("gpt2", "gpt_neox")
_TIED = ("gpt2", "gemma", "gemma2", "gemma3_text")
"""Families whose embeddings are tied if config.json does not say."""


def read_config(folder: Path) -> dict[str, Any]:
    """The content of config.json.

    Raises:
        UserError: config.json is missing or not valid.
    """
    if not (folder / "config.json").exists():
        raise UserError(f"model folder {folder} has no config.json; give a Hugging Face folder")
    return read_json(folder / "config.json")


def _stored_size(raw: Mapping[str, Any], size: str) -> Any:
    return next((raw[name] for name in _NAMES[size] if raw.get(name) is not None), None)


def read_sizes(folder: Path) -> Sizes:
    """A model's sizes, to plan with.

    transformers is asked only if config.json leaves a size to the family's default.

    Raises:
        UserError: config.json is missing or incomplete, or a size is not a whole number.
    """
    raw, path = read_config(folder), folder / "config.json"
    needed = ("n_layers", "d_model", "n_heads", "vocabulary")
    if any(_stored_size(raw, size) is None for size in needed):
        from transformers import AutoConfig

        with in_one_sentence(f"{path} cannot be read by transformers"):
            raw = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False).to_dict()
    sizes = {size: _stored_size(raw, size) for size in _NAMES}
    for size, value in sizes.items():
        if value is None and size in needed:
            raise UserError(f"{path}: the key {_NAMES[size][0]!r} is missing")
        if value is not None and not (type(value) is int and 1 <= value <= _LARGEST):
            raise UserError(f"{path}: {_NAMES[size][0]} must be a whole number of at least 1, not {value!r:.60}")
    usual = {
        "d_mlp": 4 * sizes["d_model"],
        "n_key_value_heads": sizes["n_heads"],
        "d_head": max(1, sizes["d_model"] // sizes["n_heads"]),
    }
    family = raw.get("model_type")
    return Sizes(
        **{size: value or usual[size] for size, value in sizes.items()},
        gated=family not in _NO_GATE,
        tied=bool(raw.get("tie_word_embeddings", family in _TIED)),
    )
