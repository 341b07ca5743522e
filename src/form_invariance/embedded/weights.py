"""Initial weights of an embedded model, and its weights as a `Decoder` or as a Hugging Face folder."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from form_invariance.embedded.recipe import Recipe
from form_invariance.embedded.tokenizer import BOS, EOS, LARGEST_NUMBER
from form_invariance.model.decoder import Decoder
from form_invariance.model.loading import assemble
from form_invariance.model.saving import LONGEST_PROMPT, write_folder
from form_invariance.randomness import generator

PERIODS = (2, 4, 5, 8, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000)


def number_features() -> np.ndarray:
    """Features of the numbers 0..999: cosines and sines of many periods, size and logarithm, (1000, 30)."""
    numbers = np.arange(LARGEST_NUMBER + 1, dtype=np.float64)
    angles = 2 * np.pi * numbers[:, None] / np.array(PERIODS)
    size = numbers / LARGEST_NUMBER
    logarithm = np.log1p(numbers) / np.log1p(LARGEST_NUMBER)
    return np.concatenate([np.cos(angles), np.sin(angles), size[:, None], logarithm[:, None]], axis=1)


def initial_weights(recipe: Recipe, vocabulary: int, number_ids: np.ndarray) -> dict[str, Tensor]:
    """Random initial weights by Hugging Face name. Embeddings of numbers start as randomly rotated features."""
    rng = generator(recipe.seed, "initial-weights")
    d, m = recipe.d_model, recipe.d_mlp
    queries, keys = recipe.d_head * recipe.n_heads, recipe.d_head * recipe.n_key_value_heads

    def normal(*shape: int, scale: float = recipe.initial_deviation) -> np.ndarray:
        return rng.normal(0.0, scale, size=shape)

    embedding = normal(vocabulary, d, scale=recipe.token_deviation)
    features = number_features()
    rotation = np.linalg.qr(rng.normal(size=(d, features.shape[1])))[0].T
    embedding[number_ids] = 0.25 * features @ rotation + normal(len(features), d, scale=0.02)
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": np.ones(d)}
    for layer in range(recipe.n_layers):
        made = {
            "input_layernorm": np.ones(d),
            "self_attn.q_proj": normal(queries, d),
            "self_attn.k_proj": normal(keys, d),
            "self_attn.v_proj": normal(keys, d),
            "self_attn.o_proj": normal(d, queries),
            "post_attention_layernorm": np.ones(d),
            "mlp.gate_proj": normal(m, d),
            "mlp.up_proj": normal(m, d),
            "mlp.down_proj": normal(d, m),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": value for name, value in made.items()}
    return {name: torch.from_numpy(value).float().contiguous() for name, value in weights.items()}


class _Tensors:
    """Gives tensors to `assemble` as they are."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self._weights = weights

    def __call__(self, name: str, *shape: int) -> Tensor:
        return self._weights[name]

    def optional(self, name: str, *shape: int) -> Tensor | None:
        return self._weights.get(name)


def as_decoder(weights: dict[str, Tensor], recipe: Recipe) -> Decoder:
    """A model that uses these tensors as its weights, so that gradients reach them."""
    config = _llama_config(recipe, len(weights["model.embed_tokens.weight"]))
    return assemble(_Tensors(weights), config, "the recipe")


def _llama_config(recipe: Recipe, vocabulary: int) -> dict[str, Any]:
    """The content of config.json."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "head_dim": recipe.d_head,
        "hidden_act": "silu",
        "hidden_size": recipe.d_model,
        "intermediate_size": recipe.d_mlp,
        "max_position_embeddings": LONGEST_PROMPT,
        "mlp_bias": False,
        "num_attention_heads": recipe.n_heads,
        "num_hidden_layers": recipe.n_layers,
        "num_key_value_heads": recipe.n_key_value_heads,
        "rms_norm_eps": recipe.norm_epsilon,
        "rope_theta": recipe.rope_theta,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": vocabulary,
    }


def save_folder(weights: dict[str, Tensor], recipe: Recipe, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model as an ordinary Hugging Face Llama folder."""
    tokens = {"bos_token_id": tokenizer.token_to_id(BOS), "eos_token_id": tokenizer.token_to_id(EOS)}
    config = _llama_config(recipe, tokenizer.get_vocab_size()) | tokens
    write_folder(folder, config, weights, tokenizer, BOS, EOS)
