"""Initial weights of an embedded model, and its weights as a `Decoder` or as a Hugging Face folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from form_invariance.embedded.recipe import Recipe
from form_invariance.embedded.saving import llama_config, write_folder
from form_invariance.embedded.tokenizer import LARGEST_NUMBER
from form_invariance.model.decoder import Decoder
from form_invariance.model.families import decoder_config
from form_invariance.model.loading import assemble
from form_invariance.model.weight_layouts import llama_shapes
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
    shapes = llama_shapes(decoder_config(_config(recipe, vocabulary), "the recipe"))
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
    config = _config(recipe, len(weights["model.embed_tokens.weight"]))
    return assemble(lambda name, *shape, optional=False: weights.get(name), config, "the recipe")


def save_folder(weights: dict[str, Tensor], recipe: Recipe, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model as an ordinary Hugging Face Llama folder, the weights in half the size: float16."""
    halved = {name: weight.half() for name, weight in weights.items()}
    write_folder(folder, _config(recipe, tokenizer.get_vocab_size()), halved, tokenizer)
