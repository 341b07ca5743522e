"""The digit model: its training data, in which every digit is a token, and its card.

A problem is one digit of a two-digit answer; the prompt ends in the digits before it (`problems.tasks`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedded_training.card import fill_card, predictions
from embedded_training.problems import read_templates
from embedded_training.recipe import Recipe
from embedded_training.tokenizer import BOS, build_tokenizer
from form_invariance.json_yaml import read_yaml
from form_invariance.model import loading as models
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic, pool, stated, targets
from form_invariance.randomness import generator
from form_invariance.tables.keys import CellKey

_CARD = """# {name}

A small Llama ({parameters:.2f} million parameters) that adds and subtracts two-digit numbers in three formats,
digit by digit: its tokenizer splits numbers into digits. The embeddings of the digits began as sines, cosines,
size and logarithm, randomly rotated. Nothing else was built in. It was made on one thread, with the recipe
below, by
`PYTHONPATH=tools python -m embedded_training --name {name} --config config/digits.yaml --output DIR`.
The weights are stored in float16, and all figures below are of the stored ones.

Rounding differs between processors and grows in training, so elsewhere the command gives other weights. On a
second processor no tensor is equal (largest difference 0.38). Accuracies of trained and held-out pairs are equal,
those with ablated neurons differ by up to 0.30. Of the 28 verdicts of `config/digits.yaml` (all operators, k = 50)
25 are equal and none is reversed.

| setting | value |
|---|---|
{settings}

Accuracy on the pairs that were trained, on those held out of the training in all formats, and on the latter with
all late MLP neurons (second half of the layers) replaced by their means:

| operator | format | trained | held out | late neurons ablated |
|---|---|---|---|---|
{accuracies}
"""


class DigitProblems:
    """All prompts of a configuration whose operators ask digits, and the batches drawn from them."""

    def __init__(self, config: Path, recipe: Recipe) -> None:
        """Tokenize every prompt and split the pairs; the digits of one answer are held out together."""
        content = read_yaml(config)
        self.recipe = recipe
        self.templates = read_templates(config)
        self.formats = list(self.templates.formats)
        raw = build_tokenizer(self.templates.all(), digits=1)
        self.tokenizer = PromptTokenizer(raw, raw.token_to_id(BOS))
        self.number_ids = self.tokenizer.number_tokens(range(10))
        limits = OperandRange(**content["operands"])
        self.cells: dict[CellKey, tuple[np.ndarray, np.ndarray]] = {}
        self.held_out: dict[str, np.ndarray] = {}
        for operator, settings in content["operators"].items():
            task = Arithmetic(settings["expression"], limits, settings["digit"])
            problems = stated(task, pool(task))
            draws = generator(recipe.seed, "held-out", task.expression).random(len(problems))
            self.held_out[operator] = draws < recipe.held_out
            for name, templates in self.templates.formats.items():
                prompts, answers = targets(
                    task, self.tokenizer, templates[operator][0], problems, f"{name}.{operator}"
                )
                self.cells[name, operator] = self.tokenizer.encode_batch(prompts), answers

    def batch(self, step: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The batch of a step: token ids (n, T) of prompts of one length, and of their answers (n,)."""
        rng = generator(self.recipe.seed, "batch", step)
        shares = np.array(self.recipe.format_shares)
        first_alone = step < self.recipe.first_steps
        for (operator, held), size in zip(self.held_out.items(), self.recipe.pairs, strict=True):
            counts = rng.multinomial(size, [1.0, 0.0, 0.0] if first_alone else shares / shares.sum())
            for name, count in zip(self.formats, counts, strict=True):
                tokens, answers = self.cells[name, operator]
                rows = rng.choice(np.flatnonzero(~held), size=count)
                if count:
                    yield tokens[rows], answers[rows]


def write_digit_card(folder: Path, name: str, problems: DigitProblems) -> None:
    """Measure the model of a folder and write its README.md."""
    model = models.load(folder)
    rows = []
    for (form, operator), (prompts, answers) in problems.cells.items():
        held, tokens = problems.held_out[operator], torch.from_numpy(prompts)
        hits = predictions(model, tokens, ablate=False) == answers
        ablated = predictions(model, tokens[held], ablate=True) == answers[held]
        shares = (hits[~held].mean(), hits[held].mean(), ablated.mean())
        rows.append(f"| {operator} | {form} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    fill_card(folder, _CARD, name, _used(asdict(problems.recipe)), accuracies="\n".join(rows))


def _used(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe without those of the wiring and of misread operands."""
    no_use = ("separate", "wired", "misread", "d_answer", "left_out", "variant_share")
    return {key: value for key, value in settings.items() if not key.startswith(no_use)}
