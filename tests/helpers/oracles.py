"""The slow, plain methods that the fast ones are compared with: TransformerLens hooks over whole sequences."""

from functools import partial

import numpy as np
import torch

from form_invariance.beyond.engine_check.transformer_lens_bridge import boot, neurons_at

bridge = boot
"""The model of a Hugging Face folder in TransformerLens."""


@torch.no_grad()
def last_logits(model, tokens, hooks=()):
    """Logits at the last token, (B, V), of the whole sequences under hooks."""
    return model.run_with_hooks(tokens, fwd_hooks=list(hooks))[:, -1].detach()


@torch.no_grad()
def all_neurons(model, tokens, layers):
    """hook_post of every position, (layers, B, T, m)."""
    names = [neurons_at(layer) for layer in layers]
    _, found = model.run_with_cache(tokens, names_filter=names)
    return torch.stack([found[name] for name in names])


def at_last_token(value):
    """A hook that puts a function of the last token's activation in its place."""

    def hook(activation, hook):
        activation = activation.clone()
        activation[:, -1] = value(activation[:, -1])
        return activation

    return hook


def indirect_effect(clean, patched, answers):
    """The paper's Eq. 4 as it is printed, from logits (B, V) in double precision; (B,)."""
    p, p_star = (z.double().softmax(-1).gather(1, answers).numpy() for z in (clean, patched))
    r, corrupt = 0, 1
    return 0.5 * ((p_star[:, corrupt] - p[:, corrupt]) / p[:, corrupt] + (p[:, r] - p_star[:, r]) / p_star[:, r])


def patched_effects(model, tokens, corrupt, answers, layer, neurons):
    """Indirect effects of patching each neuron alone by full hooked forward passes, and the changes of the clean
    answer's probability, (2, B, neurons)."""
    clean, given = last_logits(model, tokens), all_neurons(model, corrupt, range(layer, layer + 1))[0, :, -1]

    def patched(neuron):
        def hook(activation, hook):
            activation = activation.clone()
            activation[:, -1, neuron] = given[:, neuron]
            return activation

        return last_logits(model, tokens, [(neurons_at(layer), hook)])

    columns = []
    for z in map(patched, neurons):
        p, p_star = (some.double().softmax(-1).gather(1, answers)[:, 0].numpy() for some in (clean, z))
        columns.append(np.stack([indirect_effect(clean, z, answers), p_star - p]))
    return np.stack(columns, axis=2)


def readout(z, answers, center):
    """What the stages measure of logits (B, V), each (B,)."""
    log_probability = z.double().log_softmax(-1).gather(1, answers[:, None])[:, 0].numpy()
    return {
        "accuracy": (z.argmax(-1) == answers).double().numpy(),
        "probability": np.exp(log_probability),
        "normalized_logit": normalized_logit(z, answers, center),
        "margin": margin(z.double(), answers).numpy(),
        "loss": -log_probability,
    }


def margin(z, answers):
    """logit[r] - the largest logit of another token, from logits (B, V)."""
    others = torch.arange(z.shape[1]) != answers[:, None]
    return z.gather(1, answers[:, None])[:, 0] - z[others].view(len(z), -1).max(-1).values


def normalized_logit(z, answers, center):
    """logit[r] / max logit from logits (B, V)."""
    z = z.double()
    if center:
        z = z - z.mean(-1, keepdim=True)
    return (z.gather(1, answers[:, None])[:, 0] / z.max(-1).values).numpy()


def ablated(model, tokens, first, mask, means, positions):
    """Logits at the last token, (B, V), with neurons of the late layers at means: mask (L, m), means (L, T, m)."""

    def replace(activation, hook, late):
        activation = activation.clone()
        chosen = activation[:, positions]
        activation[:, positions] = torch.where(mask[late], means[late][positions].to(chosen.dtype), chosen)
        return activation

    hooks = [(neurons_at(first + late), partial(replace, late=late)) for late in range(len(mask))]
    return last_logits(model, tokens, hooks)


def check_rows(table, sets, model, tokens, answers, first, means, center):
    """A table by prompt has the rows of sets (columns, and which neurons take their means at the last token)."""
    blocks = np.split(np.arange(len(table)), len(sets))
    for (columns, mask), block in zip(sets, blocks, strict=True):
        rows = table.iloc[block]
        assert (rows[[*columns]] == [*columns.values()]).all(axis=None), columns
        z = ablated(model, tokens, first, torch.from_numpy(mask), means, slice(-1, None))
        for metric, values in readout(z, answers, center).items():
            if (column := {"accuracy": "correct"}.get(metric, metric)) in rows:
                limit = 1e-7 if metric == "probability" else 2e-4
                np.testing.assert_allclose(rows[column].astype(float), values, atol=limit)


def rounding(found, expected):
    """The largest difference divided by the largest value, with which rounding errors grow."""
    return (found - expected).abs().max() / expected.abs().max()
