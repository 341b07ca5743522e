"""Effects of single neurons, estimated and exact."""

import pandas as pd
import torch

from form_invariance.errors import UserError
from form_invariance.experiment.indirect_effect import RANKING_METRICS
from form_invariance.experiment.run import Run
from form_invariance.library.models import as_loaded
from form_invariance.library.prompts import accepted_of, mask_of, same_number, tensors_of
from form_invariance.library.tables import refusal, shown
from form_invariance.stages.attribution.compute import first_stage
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.stages.patching.compute import patch_candidates


@as_loaded
def attribution(model: Run, clean: pd.DataFrame, corrupt: pd.DataFrame) -> pd.DataFrame:
    """Effects of all late neurons, estimated from one gradient (paper, Eq. 5); cheaper than exact effects.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> rows = pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]})
    >>> prompts = make_prompts(model, "{a}+{b}=", rows)
    >>> attribution(model, prompts, prompts.iloc[::-1]).columns.tolist()
    ['layer', 'neuron', 'attribution']

    Args:
        clean: prompts.
        corrupt: the partner of each prompt, in the same order, with another answer.

    Returns:
        Means over the prompts, the largest first.
    """
    table = first_stage(model, _train(model, clean, corrupt), model.width)
    return _largest_first(
        table[["layer", "neuron", "mean"]].rename(columns={"mean": "attribution"}), "attribution"
    )


@as_loaded
def exact_effects(
    model: Run,
    clean: pd.DataFrame,
    corrupt: pd.DataFrame,
    neurons: pd.DataFrame | None = None,
    metric: str = "indirect_effect",
) -> pd.DataFrame:
    """Exact effects of activation patching: each neuron alone takes its activation of the corrupt prompt.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> rows = pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]})
    >>> prompts = make_prompts(model, "{a}+{b}=", rows)
    >>> len(exact_effects(model, prompts, prompts.iloc[::-1], pd.DataFrame({"layer": [4], "neuron": [7]})))
    1

    Args:
        clean, corrupt: as in `attribution`.
        neurons: the neurons to patch; None patches all late neurons.
        metric: what an effect is. indirect_effect: paper, Eq. 4: ½ [P*(r') / P(r') + P(r) / P*(r)] - 1, the clean
            answer r and the corrupt answer r' before (P) and after the patch (P*). It is relative: where P(r') is
            tiny, a neuron with a large effect may raise P(r) too. probability: P(r) - P*(r). logit_difference: by
            how much the clean answer's logit falls against the corrupt answer's. kl: the KL divergence of the
            patched distribution over the vocabulary from the clean one.

    Returns:
        Columns layer, neuron, effect (mean over the prompts) and deviation (sample standard deviation over the
        prompts; 0 for a single prompt), the largest effect first.
    """
    if not isinstance(metric, str) or metric not in RANKING_METRICS:
        raise UserError(f"metric: {shown(metric)} must be one of {', '.join(RANKING_METRICS)}")
    train = _train(model, clean, corrupt)
    candidates = {layer: torch.arange(model.width, device=model.model.device) for layer in model.late}
    if neurons is not None:
        mask = torch.from_numpy(mask_of(model, neurons)).to(model.model.device)
        candidates = {layer: row.nonzero()[:, 0] for layer, row in zip(model.late, mask, strict=True) if row.any()}
    if not candidates:
        raise UserError("neurons: the table has no row")
    layer_effects = patch_candidates(model, train, candidates, metric)
    tables = [
        pd.DataFrame(
            {
                "layer": layer,
                "neuron": candidates[layer].cpu().numpy(),
                "effect": effects[0].mean(0).cpu().numpy(),
                "deviation": effects[0].std(0, correction=min(1, len(clean) - 1)).cpu().numpy(),
            }
        )
        for layer, (effects, _) in layer_effects.items()
    ]
    return _largest_first(pd.concat(tables), "effect")


def _train(model: Run, clean: pd.DataFrame, corrupt: pd.DataFrame) -> TrainPrompts:
    """Clean prompts and their partners in the form of the stages, as one draw of partners."""
    tokens, answers = tensors_of(model, clean, "clean")
    _, others = tensors_of(model, corrupt, "corrupt")
    same_number(clean, corrupt, "corrupt")
    for row, (other, accepted) in enumerate(zip(others.tolist(), accepted_of(clean, "clean"), strict=True)):
        if other in accepted:
            raise refusal(corrupt, row, "corrupt", "has the answer of its clean prompt, so no effect is defined")
    return TrainPrompts(tokens, [corrupt["prompt"].tolist()], torch.stack([answers, others], dim=1)[None])


def _largest_first(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table.sort_values(column, ascending=False, kind="stable", ignore_index=True)
