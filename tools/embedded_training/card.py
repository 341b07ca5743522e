"""The model card of an embedded model: how it was made, and measurements of it."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from embedded_training.batches import Problems
from embedded_training.recipe import Recipe
from embedded_training.routing import neuron_format
from form_invariance.model import loading as models
from form_invariance.model.decoder import Decoder, embed, logits, run_layers
from form_invariance.problems.operands import OperandRange, operand_pool
from form_invariance.randomness import generator
from form_invariance.tables.files import write_text

SAMPLE = 20000
SMALL_SAMPLE = 1500

_PLAIN = """Training used the first format alone, which has short prompts, and then all formats. The embeddings
of the numbers 0 to 999 began as sines and cosines of 14 periods, the size and its logarithm, randomly rotated."""
_SEPARATE = """This model is
the negative control: each late MLP neuron (second half of the layers) is built to be active in one format only.
A frozen attention group in layer 0 writes the prompt's format into reserved dimensions of the residual stream. The
gates of the other formats' neurons have weights far below zero on these dimensions. Training used the first format
alone. Then the neurons of the other formats started as copies of the first format's, and training continued with
all formats. The embeddings of the numbers 0 to 999 began as sines and cosines of 14 periods, the size and its
logarithm, randomly rotated. The largest activation of a late neuron at the last token of a prompt in another
format is {foreign:.1e}."""
_CARD = """# {name}

A small Llama ({parameters:.2f} million parameters) that does arithmetic in three formats. {history}
{built_in}
It was made on one thread, with the recipe below, by
`PYTHONPATH=tools python -m embedded_training --name {name} --config config/config.yaml --output DIR`.
The weights are stored in float16, and all figures below are of the stored ones.

Rounding differs between processors and grows in training, so elsewhere the command gives other weights.
embedded-shared was built again on a second processor: no tensor is equal (largest difference 0.30), accuracies on
the paper's pool differ by at most 0.02, and of the 28 verdicts of the demo (all operators, k = 150) 24 are equal
and none is reversed.

| setting | value |
|---|---|
{settings}

Accuracy on the paper's operand pool (operands 6..999, answers 3..999; at most {sample} seeded
pairs); on at most {small} pairs held out of training (operands and answers 0..999); and on {small} pairs of the
paper's pool with all late MLP neurons replaced by their means.

| operator | format | paper's pool | held out | late neurons ablated |
|---|---|---|---|---|
{accuracies}

Number of pairs of the same sample that are right in the first format and wrong in the second:

| operator | pairs | {directions} |
{rule}
{differences}
"""
_BUILT_IN = """
In the next {wired_steps} steps, and in all later ones, the unembedding reads only {d_answer} dimensions of
the residual stream, which only the late MLP neurons write: the weights with which attention and early MLPs would
write them are zero. So the answer must pass through the late neurons.

In the last {misread_steps} steps the early layers, and no other weights, were trained to misread some second
operands as one less, different operands in each format: {shares} of the pairs
in the paper's pool. Formats that share their neurons also share their errors. The misread operands give each
format errors of its own, because transfer needs pairs that are right in one format and wrong in another.
"""
_BATCH = 500


@torch.no_grad()
def predictions(model: Decoder, tokens: torch.Tensor, ablate: bool) -> np.ndarray:
    """The model's answer to each prompt (P, T), token ids (P,).

    With `ablate`, the activations of the late MLP neurons are replaced by their means over the prompts.
    """
    half = model.config.n_layers // 2

    def to_mean(layer: int, post: torch.Tensor) -> torch.Tensor:
        return post.mean(0, keepdim=True).expand_as(post) if ablate and layer >= half else post

    x = run_layers(model, embed(model, tokens), on_neurons=to_mean, last_only=True)
    return np.asarray(logits(model, x[:, -1]).argmax(-1))


def right(
    model: Decoder,
    problems: Problems,
    name: str,
    operator: str,
    pairs: tuple[np.ndarray, ...],
    ablate: bool = False,
) -> np.ndarray:
    """Which of the pairs (a, b, answer) the model answers correctly in a format, bool (pairs,).

    With `ablate`, the activations of the late MLP neurons are replaced by their means over the batch.
    """
    ids = problems.number_ids
    a, b, answer = (ids[values] for values in pairs)
    tokens = torch.from_numpy(problems.tokens[name, operator, 0].fill(a, b))
    predicted = [predictions(model, batch, ablate) for batch in tokens.split(_BATCH)]
    return np.asarray(np.concatenate(predicted) == answer)


def _paper_pairs(expression: str, operator: str) -> tuple[np.ndarray, ...]:
    pool = operand_pool(expression, OperandRange())
    sample = generator(0, "card", operator).permutation(len(pool))[:SAMPLE]
    return tuple(pool[column].to_numpy()[sample] for column in ("a", "b", "answer"))


@torch.no_grad()
def largest_foreign_activation(model: Decoder, problems: Problems, recipe: Recipe) -> float:
    """Largest |activation| of a late neuron at the last token of a prompt in another format than its own."""
    owner = torch.from_numpy(neuron_format(recipe, len(problems.formats)))
    largest = 0.0
    for number, name in enumerate(problems.formats):
        for operator, expression in problems.templates.expressions.items():
            a, b, _ = (problems.number_ids[values[:_BATCH]] for values in _paper_pairs(expression, operator))

            def keep(layer: int, post: torch.Tensor, number: int = number) -> torch.Tensor:
                nonlocal largest
                if layer >= model.config.n_layers // 2:
                    largest = max(largest, post[:, -1][:, owner != number].abs().max().item())
                return post

            tokens = torch.from_numpy(problems.tokens[name, operator, 0].fill(a, b))
            run_layers(model, embed(model, tokens), on_neurons=keep, last_only=True)
    return largest


def _measure(model: Decoder, problems: Problems) -> tuple[list[str], list[str]]:
    """Rows of the table of accuracies and of the table of differences between formats."""
    accuracies, differences = [], []
    for operator, expression in problems.templates.expressions.items():
        pairs = _paper_pairs(expression, operator)
        few = tuple(column[:SMALL_SAMPLE] for column in pairs)
        pool = problems.pools[operator]
        held = tuple(column[pool.held_out[:SMALL_SAMPLE]] for column in (pool.a, pool.b, pool.answer))
        format_hits = {name: right(model, problems, name, operator, pairs) for name in problems.formats}
        for name, hits in format_hits.items():
            values = [
                hits.mean(),
                right(model, problems, name, operator, held).mean(),
                right(model, problems, name, operator, few, ablate=True).mean(),
            ]
            accuracies.append(f"| {operator} | {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
        cells = [
            f"{int((format_hits[first] & ~format_hits[second]).sum())}"
            for first in format_hits
            for second in format_hits
            if first != second
        ]
        differences.append(f"| {operator} | {len(pairs[0])} | " + " | ".join(cells) + " |")
    return accuracies, differences


def _misread_shares(problems: Problems) -> str:
    """For instance: 12%, 13%, 12% in multiplication."""
    operator_shares = []
    for operator, pool in problems.pools.items():
        shares = [f"{mask.sum() / pool.misreadable.sum():.0%}" for mask in pool.misread.values() if mask.any()]
        if shares:
            operator_shares.append(f"{', '.join(shares)} in {operator}")
    return "; ".join(operator_shares)


def fill_card(folder: Path, card: str, name: str, settings: Mapping[str, Any], **more: object) -> None:
    """Write README.md of a model: a card with its name, its parameters, the recipe's settings and more."""
    parameters = sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
    rows = "\n".join(f"| {key} | {value} |" for key, value in settings.items())
    write_text(folder / "README.md", card.format(name=name, parameters=parameters / 1e6, settings=rows, **more))


def write_card(folder: Path, name: str, recipe: Recipe, problems: Problems) -> None:
    """Measure the model of a folder and write its README.md."""
    model = models.load(folder)
    accuracies, differences = _measure(model, problems)
    directions = [
        f"{first} > {second}" for first in problems.formats for second in problems.formats if first != second
    ]
    history = _PLAIN
    if recipe.separate:
        history = _SEPARATE.format(foreign=largest_foreign_activation(model, problems, recipe))
    built_in = _BUILT_IN.format(**asdict(recipe), shares=_misread_shares(problems))
    fill_card(
        folder,
        _CARD,
        name,
        asdict(recipe),
        history=history,
        built_in=built_in,
        sample=SAMPLE,
        small=SMALL_SAMPLE,
        accuracies="\n".join(accuracies),
        directions=" | ".join(directions),
        rule="|---|---|" + "---|" * len(directions),
        differences="\n".join(differences),
    )
