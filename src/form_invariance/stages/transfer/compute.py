"""Cross-format transfer of the shared neurons' activations (paper, section 4.4; method, section 8).

On a prompt that the model answers wrongly, the shared neurons take their last-token activations from a prompt
of another format that it answers correctly, the donor. We count the answers that become right. The donor has the
same operands (matched), other operands and the same answer, or another answer, which may come out
(imposed). Without a donor, the neurons take their mean over prompts of the target's template.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from form_invariance.experiment.controls import NeuronSet, masks_of
from form_invariance.experiment.intervene import read_replaced
from form_invariance.experiment.readout import Readout, join_prompts, read_out
from form_invariance.experiment.run import Run
from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import Decoder
from form_invariance.model.memory import rows_at_once
from form_invariance.model.replay import LastTokenCache, build_cache, replay, select
from form_invariance.stages.transfer.conditions import Condition, Group, Plans
from form_invariance.stages.transfer.names import RESIDUAL


class Donors:
    """Last-token activations and residual streams of donor prompts; each distinct prompt runs once."""

    def __init__(self, run: Run, prompts: Sequence[str], batch: int = 256) -> None:
        """Run the prompts."""
        unique = sorted(set(prompts))
        self._position = {prompt: position for position, prompt in enumerate(unique)}
        batch_rows, activations, residual = [], [], []
        for rows, batch_tokens in by_length(run.tokens(unique), batch):
            cache = build_cache(run.model, batch_tokens, run.first)
            batch_rows.append(rows)
            activations.append(cache.neurons)
            residual.append(cache.residual[0])
        self._activations, self._residual = in_order(batch_rows, activations, 1), in_order(batch_rows, residual, 0)

    def _rows(self, prompts: Sequence[str]) -> list[int]:
        return [self._position[prompt] for prompt in prompts]

    def neurons(self, prompts: Sequence[str]) -> Tensor:
        """Activations (late layers, prompts, m)."""
        return self._activations[:, self._rows(prompts)]

    def residual(self, prompts: Sequence[str]) -> Tensor:
        """Residual stream before the first late layer, (prompts, d)."""
        return self._residual[self._rows(prompts)]


def run_donors(run: Run, plans: Plans) -> dict[str, Donors]:
    """Run the donor prompts of all directions, each once; keys are formats."""
    prompts: dict[str, list[str]] = {}
    for groups in plans.values():
        for group in groups:
            for condition in group.conditions:
                if not condition.averaged:
                    prompts.setdefault(condition.format, []).extend(condition.donors)
    return {name: Donors(run, donors) for name, donors in prompts.items() if donors}


def transfer_residual(
    model: Decoder, cache: LastTokenCache, donors: Tensor, answers: Tensor, center: bool
) -> Readout:
    """Replace the target runs' last-token residual stream before the first late layer by the donors', (B, d).

    The late layers then run as usual, and their heads read the target's earlier positions. If they read nothing
    there, or the same as in the donor's run, the output is the donor's own. The readout has the shape (1, B).
    """
    x = replay(model, cache, donors[:, None], cache.first)
    return read_out(model, x.transpose(0, 1), answers, center)


@torch.no_grad()
def run_group(
    run: Run,
    group: Group,
    donors: Mapping[str, Donors],
    means: Mapping[str, Tensor],
    sets: Mapping[str, Sequence[NeuronSet]],
    center: bool,
) -> dict[str, Readout]:
    """Run all conditions of a group; one without pairs or without sets is absent from the result.

    Args:
        donors: donors of each format.
        means: mean last-token activations of each format, (late layers, m), for conditions without donors.
        sets: sets of neurons by the names that conditions use.

    Returns:
        The readout of each condition, (sets, pairs).
    """
    conditions = [condition for condition in group.conditions if condition.donors and sets[condition.neurons]]
    if not conditions:
        return {}
    device = run.model.device
    masks = {
        condition.neurons: torch.from_numpy(masks_of(sets[condition.neurons])).to(device)
        for condition in conditions
    }
    per_batch = max(1, rows_at_once(run.model) // max(map(len, masks.values())))
    results: dict[str, list[tuple[Tensor, Readout]]] = {condition.name: [] for condition in conditions}

    def after(condition: Condition, rows: np.ndarray, cache: LastTokenCache, answers: Tensor) -> Readout:
        prompts = [condition.donors[row] for row in rows]
        if condition.neurons == RESIDUAL:
            residual = donors[condition.format].residual(prompts)
            return transfer_residual(run.model, cache, residual, answers, center)
        if condition.averaged:
            activations = means[condition.format][:, None].expand(-1, len(rows), -1)
        else:
            activations = donors[condition.format].neurons(prompts)
        return read_replaced(run.model, cache, answers, masks[condition.neurons], activations, center)

    right = torch.tensor(group.pairs["answer_token"].tolist(), device=device)
    for batch, tokens in by_length(run.tokens(group.pairs["prompt"].tolist()), per_batch):
        cache = build_cache(run.model, tokens, run.first)
        batch_targets = batch.cpu().numpy()  # ascending
        for condition in conditions:
            rows = np.flatnonzero(np.isin(condition.targets, batch_targets))
            if len(rows):
                here = torch.from_numpy(np.searchsorted(batch_targets, condition.targets[rows]))
                moved = after(condition, rows, select(cache, here), right[batch[here]])
                results[condition.name].append((torch.from_numpy(rows), moved))
    return {name: join_prompts(*zip(*parts, strict=True)) for name, parts in results.items()}
