"""Initial weights of an embedded model, and its weights as a `Decoder` or as a Hugging Face folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from embedded_training.recipe import Recipe
from embedded_training.saving import layer_shapes, llama_config, write_folder
from embedded_training.tokenizer import LARGEST_NUMBER
from form_invariance.model.decoder import Decoder, LayerWeights, Norm
from form_invariance.model.sizes import DecoderConfig
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
    d = recipe.d_model

    def normal(*shape: int, scale: float = recipe.initial_deviation) -> np.ndarray:
        return rng.normal(0.0, scale, size=shape)

    embedding = normal(vocabulary, d, scale=recipe.token_deviation)
    features = number_features()[: len(number_ids)]
    rotation = np.linalg.qr(rng.normal(size=(d, features.shape[1])))[0].T
    embedding[number_ids] = 0.25 * features @ rotation + normal(len(features), d, scale=0.02)
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": np.ones(d)}
    shapes = layer_shapes(_config(recipe, vocabulary))
    for layer in range(recipe.n_layers):
        for name, shape in shapes.items():
            made = normal(*shape) if len(shape) == 2 else np.ones(shape)
            weights[f"model.layers.{layer}.{name}.weight"] = made
    return {name: torch.from_numpy(value).float().contiguous() for name, value in weights.items()}


def _config(recipe: Recipe, vocabulary: int) -> dict[str, Any]:
    settings = {"rms_norm_eps": recipe.norm_epsilon, "rope_theta": recipe.rope_theta}
    return llama_config(asdict(recipe), vocabulary, **settings)


def as_decoder(weights: dict[str, Tensor], recipe: Recipe) -> Decoder:
    """A model that uses these tensors as its weights, so that gradients reach them."""
    embedding, width = weights["model.embed_tokens.weight"], recipe.d_head
    names = ("query", "key", "value", "output", "gate", "up", "down")
    stored = [name for name in layer_shapes(_config(recipe, len(embedding))) if "norm" not in name]
    layers = []
    for number in range(recipe.n_layers):
        at = f"model.layers.{number}"
        parts: dict[str, Any] = {
            **{ours: weights[f"{at}.{name}.weight"] for ours, name in zip(names, stored, strict=True)},
            "attention_norm": Norm(weights[f"{at}.input_layernorm.weight"]),
            "mlp_norm": Norm(weights[f"{at}.post_attention_layernorm.weight"]),
        }
        inverse = 1.0 / recipe.rope_theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
        layers.append(LayerWeights(**parts, inverse_frequencies=inverse))
    config = DecoderConfig(
        n_layers=recipe.n_layers,
        d_model=recipe.d_model,
        d_mlp=recipe.d_mlp,
        n_heads=recipe.n_heads,
        n_key_value_heads=recipe.n_key_value_heads,
        d_head=width,
        vocabulary=len(embedding),
        norm_epsilon=recipe.norm_epsilon,
    )
    return Decoder(config, embedding, layers, Norm(weights["model.norm.weight"]), embedding)


def save_folder(weights: dict[str, Tensor], recipe: Recipe, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model as an ordinary Hugging Face Llama folder, the weights in half the size: float16."""
    halved = {name: weight.half() for name, weight in weights.items()}
    write_folder(folder, _config(recipe, tokenizer.get_vocab_size()), halved, tokenizer)
