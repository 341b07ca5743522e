"""Interventions on a set of neurons: knockout, keep-only, and transfer from another prompt."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.experiment.intervene import intervene, start
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.run import Run
from form_invariance.library.identity import weights_digest
from form_invariance.library.models import as_loaded
from form_invariance.library.prompts import CENTER, mask_of, prompts_of, same_number, tensors_of, with_readout
from form_invariance.library.tables import column, names_of, refusal, shown
from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.mean_cache.compute import compute

POSITIONS = ("all", "last")
"""Ablated positions: all but BOS, or the last token."""


@dataclass(kw_only=True)
class Means(MeanCache):
    """Mean activations, with the model and the templates that they were made from."""

    weights: str  # digest of the model's weights
    templates: frozenset[str] | None  # of all prompts; None if a prompt's is unknown


@as_loaded
def mean_activations(model: Run, prompts: pd.DataFrame) -> Means:
    """Mean activations over prompts, by position from the end, which replace those of ablated neurons.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> means = mean_activations(model, pd.DataFrame({"prompt": ["12+7=", "30+41="]}))
    >>> means.neurons[3].shape  # positions without BOS, neurons
    torch.Size([4, 1032])
    """
    means = compute(model.model, model.tokenizer, [prompts_of(model, prompts, "prompts")])
    templates = set(_templates(prompts))
    all_of_them = None if None in templates else frozenset(filter(None, templates))
    return Means(**vars(means), weights=weights_digest(model.model), templates=all_of_them)


@as_loaded
def knock_out(
    model: Run, prompts: pd.DataFrame, neurons: pd.DataFrame, means: Means, positions: str = "all"
) -> pd.DataFrame:
    """The model's answers if these neurons are ablated to their means.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> prompts = make_prompts(model, "{a}+{b}=", pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]}))
    >>> none = pd.DataFrame({"layer": [], "neuron": []}, dtype=int)
    >>> knock_out(model, prompts, none, mean_activations(model, prompts))["correct"].all()
    np.True_

    Args:
        neurons: neurons of late layers.
        means: means of this model, over other prompts of the same template (`mean_activations`).
        positions: all (ablate at all tokens but BOS) or last (at the last token alone).

    Returns:
        The same columns as `answer`.
    """
    return _ablated(model, prompts, mask_of(model, neurons), means, positions)


@as_loaded
def keep_only(
    model: Run, prompts: pd.DataFrame, neurons: pd.DataFrame, means: Means, positions: str = "all"
) -> pd.DataFrame:
    """The model's answers if all late neurons but these are ablated to their means.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> prompts = make_prompts(model, "{a}+{b}=", pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]}))
    >>> few = pd.DataFrame({"layer": [3, 4, 5], "neuron": [0, 0, 0]})
    >>> (keep_only(model, prompts, few, mean_activations(model, prompts))["probability"] < 0.5).all()
    np.True_

    Args and Returns as in `knock_out`.
    """
    return _ablated(model, prompts, ~mask_of(model, neurons), means, positions)


@as_loaded
def transfer(model: Run, prompts: pd.DataFrame, donors: pd.DataFrame, neurons: pd.DataFrame) -> pd.DataFrame:
    """The model's answers if these neurons take, at the last token, their activations in a donor prompt.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> prompts = make_prompts(model, "{a}+{b}=", pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]}))
    >>> neurons = pd.MultiIndex.from_product([model.late, range(model.width)], names=["layer", "neuron"])
    >>> transfer(model, prompts, prompts.iloc[::-1], neurons.to_frame())["predicted"].tolist()
    ['71', '19']

    Args:
        prompts: the targets.
        donors: the donor of each target, in the same order. Donors may have any template and length.
        neurons: neurons of late layers.

    Returns:
        As `answer`, about the targets' answers.
    """
    prompts_of(model, prompts, "prompts")
    tokens = model.tokens(prompts_of(model, donors, "donors"))
    same_number(prompts, donors, "donors")
    activations = last_token_neurons(model.model, tokens, model.first)
    return _replaced(model, prompts, mask_of(model, neurons), activations)


def _ablated(model: Run, prompts: pd.DataFrame, mask: np.ndarray, means: Means, positions: object) -> pd.DataFrame:
    """The answers with the neurons of a mask (late layers, m) at their means."""
    if not isinstance(positions, str) or positions not in POSITIONS:
        raise UserError(f"positions: {shown(positions)} must be one of {', '.join(POSITIONS)}")
    means = _of_this_model(model, means)
    if means.templates is not None:
        for row, template in enumerate(_templates(prompts)):
            if template is not None and template not in means.templates:
                rule = f"has the template {shown(template)}, but the means are over prompts of other templates"
                raise refusal(prompts, row, "means", f"of prompts {rule}; make them with mean_activations")
    return _replaced(model, prompts, mask, means, everywhere=positions == "all")


def _replaced(
    model: Run, prompts: pd.DataFrame, mask: np.ndarray, replacement: MeanCache | Tensor, everywhere: bool = False
) -> pd.DataFrame:
    """The answers with the neurons of a mask (late layers, m) at means, or at values of the last token."""
    started = start(model, *tensors_of(model, prompts, "prompts"), CENTER)
    return with_readout(model, prompts, intervene(started, mask[None], replacement, everywhere=everywhere)[0])


def _templates(prompts: pd.DataFrame) -> list[str | None]:
    """The template of each prompt; None where it is unknown, as in prompts made by hand."""
    cells = column(prompts, "template", "prompts") if "template" in names_of(prompts, "prompts") else [None]
    return [cell if isinstance(cell, str) else None for cell in cells]


def _of_this_model(model: Run, means: Means) -> Means:
    """The means on the model's device and in its precision, after checks that they are of this model."""
    if not isinstance(means, Means):
        raise UserError(f"means: give what mean_activations returns, not a value of type {type(means).__name__}")
    shapes = {tuple(layer_means.shape[1:]) for layer_means in means.neurons if len(layer_means)}
    if len(means.neurons) != model.model.config.n_layers or shapes != {(model.width,)}:
        raise UserError("means: they were made with a model of another shape; make them with this model")
    if means.weights != weights_digest(model.model):
        raise UserError("means: they were made with another model; make them with this one (mean_activations)")
    if not all(layer_means.isfinite().all() for layer_means in means.neurons):
        raise UserError("means: some are not finite numbers; make them again with mean_activations")
    like = model.model.embedding
    return replace(means, neurons=[layer_means.to(like.device, like.dtype) for layer_means in means.neurons])
