"""Initial weights of an embedded model, and its weights as a `Decoder` and as a Hugging Face folder."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from form_invariance.embedded.recipe import Recipe
from form_invariance.embedded.tokenizer import BOS, EOS, LARGEST_NUMBER
from form_invariance.model.decoder import Decoder, LayerWeights, Norm
from form_invariance.model.families import DecoderConfig
from form_invariance.model.saving import LONGEST_PROMPT, write_folder
from form_invariance.randomness import generator

PERIODS = (2, 4, 5, 8, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000)

_LAYER_NAMES = {
    "attention_norm": "input_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def number_features() -> np.ndarray:
    """Features of the numbers 0..999: cosines and sines of many periods, size and logarithm, (1000, 30)."""
    numbers = np.arange(LARGEST_NUMBER + 1, dtype=np.float64)
    angles = 2 * np.pi * numbers[:, None] / np.array(PERIODS)
    size = numbers / LARGEST_NUMBER
    logarithm = np.log1p(numbers) / np.log1p(LARGEST_NUMBER)
    return np.concatenate([np.cos(angles), np.sin(angles), size[:, None], logarithm[:, None]], axis=1)


def initial_weights(recipe: Recipe, vocabulary: int, number_ids: np.ndarray) -> dict[str, Tensor]:
    """Random initial weights by Hugging Face name; numbers start with their features, randomly rotated."""
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
            "attention_norm": np.ones(d),
            "query": normal(queries, d),
            "key": normal(keys, d),
            "value": normal(keys, d),
            "output": normal(d, queries),
            "mlp_norm": np.ones(d),
            "gate": normal(m, d),
            "up": normal(m, d),
            "down": normal(d, m),
        }
        for name, value in made.items():
            weights[f"model.layers.{layer}.{_LAYER_NAMES[name]}.weight"] = value
    return {name: torch.from_numpy(value).float().contiguous() for name, value in weights.items()}


def as_decoder(weights: dict[str, Tensor], recipe: Recipe) -> Decoder:
    """The model that has these very tensors as its weights, so that their gradients can be taken."""
    head = recipe.d_head
    embedding = weights["model.embed_tokens.weight"]
    config = DecoderConfig(
        n_layers=recipe.n_layers,
        d_model=recipe.d_model,
        d_mlp=recipe.d_mlp,
        n_heads=recipe.n_heads,
        n_key_value_heads=recipe.n_key_value_heads,
        d_head=head,
        vocabulary=len(embedding),
        norm_epsilon=recipe.norm_epsilon,
    )
    inverse = 1.0 / recipe.rope_theta ** (torch.arange(0, head, 2, dtype=torch.float32) / head)

    def layer(index: int) -> LayerWeights:
        own: dict[str, Any] = {
            name: weights[f"model.layers.{index}.{long}.weight"] for name, long in _LAYER_NAMES.items()
        }
        norms = {name: Norm(own[name]) for name in ("attention_norm", "mlp_norm")}
        return LayerWeights(**{**own, **norms}, inverse_frequencies=inverse)

    layers = [layer(index) for index in range(recipe.n_layers)]
    return Decoder(config, embedding, layers, Norm(weights["model.norm.weight"]), embedding)


def save_folder(weights: dict[str, Tensor], recipe: Recipe, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model as an ordinary Hugging Face Llama folder."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": tokenizer.token_to_id(BOS),
        "eos_token_id": tokenizer.token_to_id(EOS),
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
        "vocab_size": tokenizer.get_vocab_size(),
    }
    write_folder(folder, config, weights, tokenizer, BOS, EOS)
