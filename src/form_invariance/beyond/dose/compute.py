"""The loss along the dose: sets of every size are knocked out or kept alone, and compared with fair controls.

All interventions are at the last token, where the neurons were ranked. An ablated neuron takes its mean over
prompts of the cell's template. A knockout changes what each late layer adds to the residual stream. Controls of
equal norm make an equally large change, for each prompt and layer. `direct` adds the changes of the unmodified run
only to the final residual stream, where no later layer reads them: neurons whose knockout costs equally much this
way write the answer.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from form_invariance.beyond.dose.neuron_sets import (
    best_controls,
    equal_norm_masks,
    parts_of_best,
    ranked_sets,
)
from form_invariance.experiment.ablation import Part
from form_invariance.experiment.controls import NOT_DRAWN, Draws, NeuronSet, labels_of, masks_of, with_half_means
from form_invariance.experiment.intervene import Started, intervene, unmodified
from form_invariance.experiment.intervention_kinds import DIRECT, INTERVENED, KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.measurements import TASK_MEANS, UNMODIFIED, readout_rows
from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    CIRCUIT,
    CONTROL_OF,
    EQUAL_NORM,
    OWN_BEST,
    RANDOM_DIRECTION,
)
from form_invariance.experiment.ranked_sets import Ranked, circuit_controls, ranked_set
from form_invariance.experiment.readout import Readout, read_out
from form_invariance.model.decoder import after_attention, after_neurons, neurons
from form_invariance.model.replay import attend, change_neurons
from form_invariance.randomness import generator
from form_invariance.tables.progress import Progress


def direct(started: Started, masks: np.ndarray, means: MeanCache) -> Readout:
    """The answers if a knockout's change in the unmodified run reaches the final residual stream alone.

    Args:
        masks: True where a neuron is ablated, (sets, late layers, m).

    Returns:
        Readout of shape (sets, P).
    """
    model, mean_activations = started.run.model, means.last_token(started.run.first)
    ablated = torch.from_numpy(masks).to(model.device)

    def read(part: Part) -> Readout:
        cache = part.last_token
        x = cache.residual[-1][:, None].expand(-1, len(masks), -1)  # (B, sets, d)
        for late, post in enumerate(cache.neurons):
            layer = cache.first + late
            change = F.linear(
                torch.where(ablated[:, late], (mean_activations[late] - post)[:, None], 0),
                model.layers[layer].down,
            )
            after = cache.residual[late + 1]
            x = x + change_neurons(model, layer, after, post, change) - after[:, None]
        return read_out(model, x.transpose(0, 1), part.answers, started.center)

    return started.join(read)


@torch.no_grad()
def of_equal_norm(
    started: Started, members: np.ndarray, masks: np.ndarray, directions: np.ndarray, means: MeanCache
) -> Readout:
    """The answers where other changes are as large as those of a knockout, for each prompt and layer.

    Args:
        members: the neurons of the knockout, (late layers, m).
        masks: other neurons, whose ablation is scaled, (sets, late layers, m).
        directions: directions in the residual stream, of norm 1, (draws, late layers, d).

    Returns:
        Readout of shape (sets + draws, P).
    """
    model, mean_activations = started.run.model, means.last_token(started.run.first)
    ablated = torch.from_numpy(np.concatenate([members[None], masks])).to(model.device)
    along = torch.from_numpy(directions).to(model.device, model.dtype)

    def read(part: Part) -> Readout:
        cache = part.last_token
        x = cache.residual[0][:, None].expand(-1, len(ablated) + len(along), -1)  # (B, 1 + sets + draws, d)
        for late, layer in enumerate(range(cache.first, model.config.n_layers)):
            after = after_attention(model, layer, x, attend(model, layer, x, cache))
            post = neurons(model, layer, x if model.config.parallel else after)
            moved = torch.where(ablated[:, late], mean_activations[late] - post[:, : len(ablated)], 0)
            change = F.linear(moved, model.layers[layer].down)  # (B, 1 + sets, d)
            size = change.norm(dim=-1, keepdim=True)
            change = torch.where(size > 0, change * size[:, :1] / size, 0)
            change = torch.cat([change, size[:, :1] * along[:, late]], dim=1)
            x = after_neurons(model, layer, after, post)
            changed = change_neurons(
                model, layer, x.flatten(0, 1), post.flatten(0, 1), change.flatten(0, 1)[:, None]
            )
            x = changed[:, 0].unflatten(0, x.shape[:2])
        return read_out(model, x[:, 1:].transpose(0, 1), part.answers, started.center)

    return started.join(read)


def _directions(shape: Sequence[int], draws: Draws, *names: object) -> np.ndarray:
    """Random directions of norm 1, (draws, late layers, d); `shape` is (late layers, d)."""
    streams = (generator(draws.seed, RANDOM_DIRECTION, *names, draw) for draw in range(draws.matched))
    drawn = np.array([stream.normal(size=shape) for stream in streams])
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


SetReadouts = Iterator[tuple[list[NeuronSet], str, Readout]]
"""Sets, their intervention, and the answers, (sets, P)."""


def _equal_norm(
    started: Started, ranked: Ranked, k: int, cell: tuple[str, str], draws: Draws, means: MeanCache
) -> SetReadouts:
    """The controls of equal norm of the own circuit and of the own best."""
    form, operator = cell
    shape = len(started.run.late), started.run.model.config.d_model
    for ending, members in (
        ("", ranked.shared(k, operator)),
        (CONTROL_OF + OWN_BEST, ranked.best(k, form, operator)),
    ):
        if not members.any() or not draws.matched:
            continue
        masks = equal_norm_masks(ranked, members, k, form, operator, draws)
        along = _directions(shape, draws, operator, form, k, ending)
        scaled = [ranked_set(operator, EQUAL_NORM + ending, k, mask, draw) for draw, mask in enumerate(masks)]
        directed = [
            ranked_set(operator, RANDOM_DIRECTION + ending, k, members, draw) for draw in range(len(along))
        ]
        of_draws = np.array(masks, dtype=bool).reshape(-1, *members.shape)
        yield [*scaled, *directed], KNOCKOUT, of_equal_norm(started, members, of_draws, along, means)


def run_cell(
    started: Started,
    ranked: Ranked,
    cell: tuple[str, str],
    ks: Sequence[int],
    values: Mapping[str, Mapping[str, np.ndarray]],
    means: MeanCache,
    draws: Draws,
) -> SetReadouts:
    """Intervene on every set of every size, on the prompts of a cell (format, operator).

    Args:
        values: as in `circuit_controls`.
        means: means of the cell's template.
    """
    progress = Progress(len(ks), "sizes")
    for k in ks:
        by_rank = [members for members in ranked_sets(ranked, k, *cell) if len(members)]
        of_best = list(best_controls(ranked, k, *cell, values[cell[1]], draws))
        matched = [*circuit_controls(ranked, k, values, draws), *of_best]
        parts = [members for members in parts_of_best(ranked, k, *cell, draws) if len(members)]
        knocked_out = [*by_rank, *matched, *parts]
        operator_sets = [members for members in by_rank if members.label["operator"] == cell[1]]
        # No verdict depends on what other operators' best keep, so it is not measured by halves.
        foreign_best = [
            members
            for members in by_rank
            if members.label["operator"] != cell[1] and members.label["neurons"].startswith(BEST_IN)
        ]
        for intervention, sets, by_half in (
            (KNOCKOUT, knocked_out, knocked_out),
            (KEEP_ONLY, [*operator_sets, *foreign_best, *of_best], operator_sets),
        ):
            for cache, tried in [(means, sets), *with_half_means(by_half, means)]:
                if tried:
                    masks = INTERVENED[intervention](masks_of(tried))
                    yield tried, intervention, intervene(started, masks, cache)
        if whole := [
            members for members in operator_sets if members.label["neurons"].startswith((CIRCUIT, BEST_IN))
        ]:
            yield whole, DIRECT, direct(started, masks_of(whole), means)
        yield from _equal_norm(started, ranked, k, cell, draws, means)
        progress.add(1)


@torch.no_grad()
def dose_table(started: Started, prompts: pd.DataFrame, cell: tuple[str, str], runs: SetReadouts) -> pd.DataFrame:
    """The measurements of one cell.

    Args:
        prompts: columns index, a and b of the P prompts.
    """
    unchanged = {"operator": cell[1], "neurons": "none", "k": 0, "seed": NOT_DRAWN}
    setting = {"task": cell[1], "donor": "", "positions": "last", "means": TASK_MEANS}
    parts = [
        readout_rows(
            unmodified(started)[None], pd.DataFrame([unchanged]), prompts, **setting, intervention=UNMODIFIED
        )
    ]
    for sets, intervention, readout in runs:
        parts.append(readout_rows(readout, labels_of(sets), prompts, **setting, intervention=intervention))
    return pd.concat(parts, ignore_index=True)
