"""Training of the embedded models with the package's own forward pass. It is seeded and can be resumed."""

import json
import math
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from embedded_training.batches import Problems
from embedded_training.digits import DigitProblems
from embedded_training.recipe import Recipe
from embedded_training.routing import WIRED_INHIBITION, construct, copy_first_format, inhibit
from embedded_training.weights import as_decoder, initial_weights
from embedded_training.wiring import Frozen, wire
from form_invariance.model.decoder import embed, logits, run_layers
from form_invariance.tables.files import read_tensors, write_tensors
from form_invariance.tables.progress import Progress

CHECKPOINT_EVERY = 50


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then cosine decay to zero, in each of the three phases."""
    start, steps, highest = 0, recipe.steps, recipe.learning_rate
    if step >= recipe.steps:
        start, steps, highest = recipe.steps, recipe.wired_steps, recipe.wired_learning_rate
    if step >= recipe.steps + recipe.wired_steps:
        start, steps = recipe.steps + recipe.wired_steps, recipe.misread_steps
    warmup = min(recipe.warmup, max(1, steps // 5))
    if step - start < warmup:
        return highest * (step - start + 1) / warmup
    return highest * 0.5 * (1 + math.cos(math.pi * (step - start - warmup) / max(1, steps - warmup)))


def _save_checkpoint(folder: Path, step: int, weights: dict[str, Tensor], optimizer: torch.optim.AdamW) -> None:
    tensors = {f"weight/{name}": weight.detach() for name, weight in weights.items()}
    for name, weight in weights.items():
        for key, value in optimizer.state[weight].items():
            tensors[f"{key}/{name}"] = torch.as_tensor(value)
    write_tensors(tensors, folder / "checkpoint.safetensors", "checkpoint", {"step": step})


def _load_checkpoint(folder: Path, weights: dict[str, Tensor], optimizer: torch.optim.AdamW) -> int:
    """Load the checkpoint if there is one. Returns the next step."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0
    arrays, provenance = read_tensors(path, "checkpoint")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for name, weight in weights.items():
        weight.data.copy_(tensors[f"weight/{name}"])
        state = {key: tensors.get(f"{key}/{name}") for key in ("step", "exp_avg", "exp_avg_sq")}
        optimizer.state[weight] = {key: value.clone() for key, value in state.items() if value is not None}
    return int(provenance["step"])


@torch.no_grad()
def _spread(weights: dict[str, Tensor], optimizer: torch.optim.AdamW, recipe: Recipe, n_formats: int) -> None:
    """Copy the first format's late neurons, and their moments in the optimizer, to the other formats."""
    copy_first_format(weights, recipe, n_formats)
    for moment in ("exp_avg", "exp_avg_sq"):
        tensors = {name: optimizer.state[weight][moment] for name, weight in weights.items()}
        copy_first_format(tensors, recipe, n_formats)


def train(problems: Problems | DigitProblems, folder: Path) -> dict[str, Tensor]:
    """Train a model. Continue from the checkpoint in `folder` if it has the same recipe and templates.

    Returns:
        The weights by Hugging Face name.
    """
    torch.set_num_threads(1)
    recipe = problems.recipe
    settings = json.dumps({**asdict(recipe), "templates": asdict(problems.templates)}, sort_keys=True)
    record = folder / "settings.json"
    if not record.exists() or record.read_bytes() != settings.encode():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        record.write_text(settings)
    vocabulary = problems.tokenizer.tokenizer.get_vocab_size()
    weights = initial_weights(recipe, vocabulary, problems.number_ids)
    frozen = Frozen(weights)
    if recipe.separate:
        assert isinstance(problems, Problems)
        bos = problems.tokenizer.bos
        assert bos is not None
        construct(frozen, recipe, problems.marked_tokens(), bos)
    frozen.keep()
    for weight in weights.values():
        weight.requires_grad_()
    matrices, vectors = ([weight for weight in weights.values() if weight.dim() == dim] for dim in (2, 1))
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
    model = as_decoder(weights, recipe)
    start = _load_checkpoint(folder, weights, optimizer)
    wired, misreading = recipe.steps, recipe.steps + recipe.wired_steps
    total_steps = misreading + recipe.misread_steps
    progress = Progress(total_steps, "steps", interval=20)
    progress.resume(start)
    for step in range(start, total_steps):
        if recipe.separate and step == recipe.first_steps:
            _spread(weights, optimizer, recipe, len(problems.formats))
            frozen.restore()
        if step == max(start, wired):
            wire(frozen, recipe)
            if recipe.separate:
                inhibit(frozen, recipe, len(problems.formats), WIRED_INHIBITION)
            frozen.keep()
        if step == max(start, misreading):
            early = tuple(f"model.layers.{layer}." for layer in range(recipe.n_layers // 2))
            for name, weight in weights.items():
                weight.requires_grad_(name.startswith(early))
        if step in (wired, misreading):
            optimizer.state.clear()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        batch = list(problems.batch(step))
        size = sum(len(answers) for _, answers in batch)
        total = 0.0
        for tokens, answers in batch:
            x = run_layers(model, embed(model, torch.from_numpy(tokens)), last_only=True)
            loss = F.cross_entropy(logits(model, x[:, -1]), torch.from_numpy(answers), reduction="sum") / size
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), recipe.clip)
        optimizer.step()
        optimizer.zero_grad()
        frozen.restore()
        progress.add(1, f"loss {total:.3f}")
        if (step + 1) % CHECKPOINT_EVERY == 0:
            _save_checkpoint(folder, step + 1, weights, optimizer)
    return {name: weight.detach() for name, weight in weights.items()}
