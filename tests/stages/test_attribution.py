import numpy as np
import pandas as pd
import pytest
import torch
from hugging_face import HuggingFace, reading
from small_prompts import CORRUPT, PROMPTS, prepared

from form_invariance.errors import UserError
from form_invariance.experiment.indirect_effect import RANKINGS
from form_invariance.model.replay import build_cache
from form_invariance.stages.attribution import compute
from form_invariance.stages.attribution.candidates import read_candidates
from form_invariance.stages.attribution.table import ATTRIBUTION
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.tables.files import write_table

FIRST = 2


def true_effect(theirs, tokens, answers, layer, delta, metric):
    """Eq. 4 of the paper, or P(r) - P*(r), by transformers with delta (B, m) added at the last token."""

    def probabilities(*changes):
        with reading(*changes):
            return theirs.model(tokens).logits[:, -1].double().softmax(-1).gather(1, answers)

    def add(post):
        return torch.cat([post[:, :-1], post[:, -1:] + delta[:, None]], dim=1)

    p, p_star = probabilities().detach(), probabilities((theirs.readers[layer], add))
    if metric == "probability":
        return p[:, 0] - p_star[:, 0]
    return 0.5 * ((p_star[:, 1] - p[:, 1]) / p[:, 1] + (p[:, 0] - p_star[:, 0]) / p_star[:, 0])


@pytest.mark.parametrize("name", ["symbolic", "word"])
@pytest.mark.parametrize("metric", RANKINGS.values())
def test_gradient_equals_autograd_of_the_effect(tiny, tiny_folder, name, metric):
    model, tokenizer = tiny
    theirs = HuggingFace(tiny_folder)
    tokens, corrupt, answers = prepared(tokenizer, name)
    clean, changed = (build_cache(model, some, FIRST) for some in (tokens, corrupt))
    got = compute.effect_gradient(model, clean, answers, metric)
    attributed = compute.attribute(model, tokens, changed.neurons, answers, FIRST, batch=2, metric=metric)
    for layer in range(FIRST, model.config.n_layers):
        delta = torch.zeros(len(tokens), model.config.d_mlp, requires_grad=True)
        (expected,) = torch.autograd.grad(true_effect(theirs, tokens, answers, layer, delta, metric).sum(), delta)
        largest = expected.abs().max().item()
        assert largest > (1e-3 if metric == "indirect_effect" else 1e-5)
        torch.testing.assert_close(got[layer - FIRST], expected, atol=1e-4 * largest, rtol=1e-3)
        expected *= (changed.neurons - clean.neurons)[layer - FIRST]
        torch.testing.assert_close(attributed[layer - FIRST], expected, atol=1e-4 * largest, rtol=1e-3)


@pytest.mark.parametrize("prompts", [1, 2])
def test_table_ranks_by_mean_plus_sample_deviation(prompts):
    effects = np.random.default_rng(0).integers(0, 3, size=(3, prompts, 100)).astype(np.float32)
    table = compute.attribution_table(effects, first=5, candidates=40)
    assert len(table) == 300
    for layer, own in zip((5, 6, 7), effects, strict=True):
        mean, std = own.mean(0), own.std(0, ddof=1) if prompts > 1 else np.zeros(100)
        score = (mean + std).astype(np.float32)
        best = sorted(range(100), key=lambda neuron, score=score: (-score[neuron], neuron))
        ranked = table[table["layer"] == layer].sort_values("rank")
        assert ranked["neuron"].tolist() == best
        assert ranked["rank"].tolist() == list(range(1, 101))
        assert ranked["candidate"].tolist() == [True] * 40 + [False] * 60
        expected = np.stack([mean, std, score], axis=1)[best]
        np.testing.assert_allclose(ranked[["mean", "std", "score"]], expected, rtol=1e-6)


def test_a_cell_is_attributed_by_its_first_draw_of_partners(tiny, run):
    model, tokenizer = tiny
    tokens, _, answers = prepared(tokenizer, "word")
    lengths = [PROMPTS["word"], PROMPTS["symbolic"]]  # partners of another operator may be of another length
    partners = [lengths[place % 2].format(a=a, b=b) for place, (a, b) in enumerate(CORRUPT)]
    train = TrainPrompts(tokens, [partners, []], torch.stack([answers, answers.flip(0)]))
    found = compute.corrupt_activations(run, partners)
    table = compute.first_stage(run, train, 7)
    effects = compute.attribute(model, tokens, found, answers, FIRST)
    pd.testing.assert_frame_equal(table, compute.attribution_table(effects.numpy(), FIRST, 7))


def test_a_table_of_other_late_layers_is_refused(tmp_path):
    path = tmp_path / "attribution.parquet"
    keys = {"model": "m", "format": "code", "operator": "sum"}
    write_table(compute.attribution_table(np.arange(6.0).reshape(2, 1, 3), 1, 2), path, ATTRIBUTION, {}, keys)
    for own in read_candidates(path, [1, 2], "cpu").values():
        assert set(own.tolist()) == {1, 2}
    with pytest.raises(UserError, match=r"attribution\.parquet has no candidates in layer 3"):
        read_candidates(path, [2, 3], "cpu")
