import collections
import dataclasses
import itertools

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from small_prompts import CACHE_PROMPTS, PAIRS, plain_means, prepare

from form_invariance.experiment import ablation, intervene, readout
from form_invariance.experiment.controls import Draws, circuit_set, draw_control
from form_invariance.experiment.neuron_sets import MEANS_HALVES
from form_invariance.model import decoder, memory
from form_invariance.model import loading as models
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.interventions import compute as interventions
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.statistics import bootstrap_weights


@pytest.mark.parametrize(
    ("family", "name", "center", "first", "bos"),
    [
        *(("llama", "symbolic", True, 2, True), ("llama", "symbolic", True, 3, True)),
        *(("llama", "word", False, 2, False), ("gpt2", "word", True, 2, True)),
        *(("gpt-neox", "symbolic", True, 2, True), ("gemma2", "symbolic", True, 2, True)),
        ("llama-tied", "symbolic", True, 2, True),
    ],
)
def test_keep_only_and_knockout_equal_hooks(family_folders, family, name, center, first, bos):
    """BOS is never ablated; without it the first token is; the last layer alone may be late."""
    folder = family_folders[family]
    model, tokenizer = models.load(folder), load_tokenizer(folder)
    tokenizer = tokenizer if bos else PromptTokenizer(tokenizer.tokenizer, None)
    tokens, answers, means = prepare(model, tokenizer, name)
    plain, bridge = plain_means(folder, tokenizer, CACHE_PROMPTS[name], 4), oracles.bridge(folder)
    circuit = torch.rand(3, 4 - first, model.config.d_mlp, generator=torch.Generator().manual_seed(3)) < 0.3
    circuit[2] = False
    run = next(ablation.start_runs(model, tokens, answers, first))
    for masks in (circuit, ~circuit):
        everywhere = ablation.ablate_all_positions(model, run, masks, means, bos=bos, center=center)
        last = intervene.read_replaced(model, run.last_token, answers, masks, means.last_token(first), center)
        for got, positions in ((everywhere, slice(int(bos), None)), (last, slice(-1, None))):
            for row, mask in enumerate(masks):
                z = oracles.ablated(bridge, tokens, first, mask, plain[first:], positions)
                expected = oracles.readout(z, answers, center)
                np.testing.assert_allclose(got.normalized_logit[row], expected["normalized_logit"], atol=1e-4)
                assert got.predicted[row].tolist() == z.argmax(-1).tolist()
                np.testing.assert_allclose(got.probability[row], expected["probability"], atol=1e-6)


def test_nothing_is_ablated_where_a_prompt_is_bos_alone(tiny):
    model, (tokens, answers, means) = tiny[0], prepare(*tiny, "word")
    run = next(ablation.start_runs(model, tokens[:, :1], answers, 2))
    masks, unmodified = torch.ones(3, 2, model.config.d_mlp, dtype=torch.bool), {}
    for center in (True, False):
        found = ablation.ablate_all_positions(model, run, masks, means, True, center)
        unmodified[center] = ablation.run_unmodified(model, run, center).normalized_logit
        torch.testing.assert_close(found.normalized_logit, unmodified[center].expand(3, -1))
    assert not torch.allclose(unmodified[True], unmodified[False])


def test_only_the_kept_neurons_run_where_few_are_left(tiny, monkeypatch):
    model, (tokens, answers, means) = tiny[0], prepare(*tiny, "word")
    width, seen, without = model.config.d_mlp, [], ablation._without
    monkeypatch.setattr(ablation, "_without", lambda *given: seen.append(given[2]) or without(*given))
    half = torch.arange(width) >= torch.tensor([[width // 2], [3]])
    more = torch.arange(width) >= torch.tensor([[3], [width // 2 + 1]])
    run = next(ablation.start_runs(model, tokens, answers, 2))
    ablation.ablate_all_positions(model, run, torch.stack([more, half]), means, True, True)
    assert len(seen) == 1
    assert torch.equal(seen[0], half)


def test_logits_are_read_out_in_pieces_of_a_bounded_size(tiny, monkeypatch):
    model, _ = tiny
    x = torch.randn(3, 5, model.config.d_model, generator=torch.Generator().manual_seed(0))
    answers = torch.tensor([3, 1, 4, 1, 5])
    whole, sizes = readout.read_out(model, x, answers, True), []
    monkeypatch.setattr(readout, "logits", lambda *given: sizes.append(len(given[1])) or decoder.logits(*given))
    monkeypatch.setattr(memory, "_LOGITS_BYTES", 4 * 8 * model.config.vocabulary + 1)
    again = readout.read_out(model, x, answers, True)
    assert sizes == [4, 4, 4, 3]
    for name in ("predicted", "normalized_logit", "probability"):
        torch.testing.assert_close(getattr(again, name), getattr(whole, name), atol=1e-6, rtol=1e-5)


def test_full_ablation_equals_hooks(tiny, tiny_folder):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "word")
    bridge = oracles.bridge(tiny_folder)
    cached = torch.from_numpy(tokenizer.encode_batch(CACHE_PROMPTS["word"]))
    names = [
        f"blocks.{layer}.{kind}"
        for layer in range(model.config.n_layers)
        for kind in ("mlp.hook_post", "attn.hook_z")
    ]
    _, recorded = bridge.run_with_cache(cached, names_filter=names)

    def replace(activation, hook):
        activation = activation.clone()
        activation[:, 1:] = recorded[hook.name].mean(0)[1:].reshape(activation[0, 1:].shape)
        return activation

    z = oracles.last_logits(bridge, tokens, [(name, replace) for name in names])
    run = next(ablation.start_runs(model, tokens, answers, 2))
    got = ablation.run_all_ablated(model, run, means, center=True)
    np.testing.assert_allclose(got.normalized_logit, oracles.normalized_logit(z, answers, True), atol=1e-4)


@pytest.mark.parametrize(("family", "bos"), [("llama", True), ("gpt2", False)])
def test_means_of_prompts_that_share_a_beginning_are_those_of_each_prompt(family_folders, family, bos):
    """The oracle is an ordinary pass with hooks."""
    model, tokenizer = models.load(family_folders[family]), load_tokenizer(family_folders[family])
    tokenizer = tokenizer if bos else PromptTokenizer(tokenizer.tokenizer, None)
    prompts = [f"one is 1, two is 2, three is 3, this is {number}" for number in (4, 7, 9, 11)]
    expected = {"neurons": [], "variance": [], "heads": []}
    tokens = torch.from_numpy(tokenizer.encode_batch(prompts))

    def on_neurons(layer, post):
        expected["neurons"].append(post[:, int(bos) :].mean(0).flip(0))
        expected["variance"].append(post[:, -1].var(dim=0, unbiased=False))
        return post

    def on_heads(layer, z):
        expected["heads"].append(z[:, int(bos) :].mean(0).flip(0))
        return z

    with torch.no_grad():
        decoder.run_layers(model, decoder.embed(model, tokens), on_neurons=on_neurons, on_heads=on_heads)
    found = mean_cache.compute(model, tokenizer, [prompts])
    for name, values in expected.items():
        for own, value in zip(getattr(found, name), values, strict=True):
            assert own.shape == value.shape
            assert oracles.rounding(own, value) < (1e-4 if name == "variance" else 2e-6), name


def test_halves_are_the_means_of_every_other_prompt(family_folders):
    """Prompts alternate within each length and template; a half has only the positions of its own prompts."""
    model, tokenizer = models.load(family_folders["llama"]), load_tokenizer(family_folders["llama"])
    short, long = [f"one is {number}" for number in (4, 7, 9, 3, 2)], ["so is one and two and this is 3"]
    groups, other = [short[:3] + long, short[3:]], [[*short[1:3:2], short[4]]]
    found = mean_cache.compute(model, tokenizer, groups)
    expected = [mean_cache.compute(model, tokenizer, [[short[0], short[2], *long], [short[3]]])]
    expected += [mean_cache.compute(model, tokenizer, other)]
    assert [*found.halves] == [*MEANS_HALVES]
    for half, whole in zip(found.halves.values(), expected, strict=True):
        for name in ("neurons", "heads", "variance"):
            for own, value in zip(getattr(half, name), getattr(whole, name), strict=True):
                assert own.shape == value.shape
                assert oracles.rounding(own, value) < (1e-4 if name == "variance" else 2e-6), name
    assert not mean_cache.compute(model, tokenizer, [short[:1]]).halves
    tokens = torch.from_numpy(tokenizer.encode_batch(short))
    last = mean_cache.last_token_means(model, tokens, 2)
    for half, some in zip(last.halves.values(), (tokens[::2], tokens[1::2]), strict=True):
        torch.testing.assert_close(half.last_token(2), mean_cache.last_token_means(model, some, 2).last_token(2))


def test_the_variance_of_a_neuron_that_hardly_varies_is_exact():
    """Single-precision squares would lose the variance: that of 5 ± 0.001 is 1e-6, and 25 is rounded by 2e-6."""
    values = 5 + 0.001 * np.random.default_rng(0).normal(size=(50, 1))
    sums = {"neurons.0": values.sum(0, keepdims=True), "squares.0": (values**2).sum(0, keepdims=True)}
    sums |= {"heads.0": np.zeros((1, 1, 1)), "count": np.array([50.0])}
    # All prompts are in the first of two halves.
    halves = {name: np.stack([value, 0 * value], 1) for name, value in sums.items()}
    found = mean_cache.means_of([{name: torch.from_numpy(value) for name, value in halves.items()}], 1)
    np.testing.assert_allclose(found.variance[0], values.var(0), rtol=1e-6)


def test_faithfulness_by_hand():
    good, bad = np.array([1.0, 1.0, 0.5]), np.array([0.5, 0.0, 0.4999])
    values = np.array([[0.75, 0.5, 0.1], [1.0, 1.0, 0.5], [0.5, 0.0, 0.4999]])
    np.testing.assert_allclose(interventions.faithfulness(values, good, bad)[0], [0.5, 0.5, np.nan])
    summary = interventions.summarize(values, good, bad, bootstrap_weights(3, 50, 0, "prompts"))
    np.testing.assert_allclose(summary["faithfulness_mean"], [0.5, 1, 0])
    low, value, high = (summary[one] for one in ("mean_low", "faithfulness_mean", "mean_high"))
    assert (low <= value + 1e-12).all()
    assert (value <= high + 1e-12).all()


ONE_EACH = Draws(random=1, matched=1, seed=0)
CHOICES = interventions.Choices("addition", ONE_EACH, resamples=20, center=True)


def test_every_operator_draws_controls_of_its_own():
    members = np.zeros((2, 1000), dtype=bool)
    members[:, :50] = True
    values = np.random.default_rng(0).random((2, 1000))
    one, other, again = (
        interventions.neuron_sets({50: members}, {}, values, values, operator, ONE_EACH)
        for operator in ("addition", "division", "addition")
    )
    for first, second, third in zip(one, other, again, strict=True):
        alike = (first.members & second.members).sum()
        assert alike == (100 if first.label["neurons"] == "circuit" else pytest.approx(0, abs=45))
        assert (first.members == third.members).all()


def test_without_neurons_outside_the_circuit_there_is_no_control():
    rng = np.random.default_rng(0)
    assert draw_control(np.arange(10) < 6, np.arange(10.0), rng) is None
    assert draw_control(np.arange(10) < 5, np.arange(10.0), rng).tolist() == [False] * 5 + [True] * 5
    assert draw_control(np.zeros(10, dtype=bool), rng.random(10), rng).sum() == 0


def test_each_control_has_as_many_neurons_in_each_layer():
    rng = np.random.default_rng(0)
    members = rng.random((2, 300)) < 0.1
    variance, effects = rng.random((2, 300)), np.where(members, 2.0, 0.0) + rng.random((2, 300))
    draws = Draws(random=5, matched=6, seed=0)
    circuit, *controls = interventions.neuron_sets({30: members}, {}, variance, effects, "addition", draws)
    assert circuit.label == {"neurons": "circuit", "k": 30, "seed": -1}
    counts = collections.Counter(one.label["neurons"] for one in controls)
    assert counts == {"random": 5, "random_variance": 6, "random_effect": 6}
    for one in controls:
        assert (one.members.sum(1) == members.sum(1)).all()
        assert not (one.members & members).any()


def test_variance_is_matched_by_the_templates_own(tiny, run, monkeypatch):
    tokens, answers, means = prepare(*tiny, "symbolic")
    own = dataclasses.replace(means, variance=[2 * one + 1 for one in means.variance])
    seen, drawn = [], interventions.neuron_sets
    monkeypatch.setattr(interventions, "neuron_sets", lambda *given: seen.append(given[2]) or drawn(*given))
    ranking = pd.DataFrame({"layer": [2, 3], "neuron": [1, 4], "ie_mean": 1.0})
    circuits = {50: np.arange(tiny[0].config.d_mlp) == np.array([[1], [4]])}
    for caches in ({"format": means}, {"format": means, "template": own}):
        interventions.cell(run, tokens, answers, circuits, {}, ranking, caches, CHOICES)
    for found, expected in zip(seen, (means, own), strict=True):
        np.testing.assert_array_equal(found, torch.stack(expected.variance[2:]))


def test_intervals_of_accuracy_and_probability_hold_their_means():
    values = np.random.default_rng(0).random((3, 40))
    found = interventions.mean_with_interval("accuracy", values, bootstrap_weights(40, 300, 0, "prompts"))
    mean, half = values.mean(1), 1.96 * values.std(1) / np.sqrt(40)
    np.testing.assert_allclose(found.pop("accuracy"), mean)
    np.testing.assert_allclose([*found.values()], [mean - half, mean + half], atol=0.03)


def test_every_intervention_runs_every_set_in_its_order(tiny, run):
    tokens, answers, means = prepare(*tiny, "symbolic")
    masks = np.arange(tiny[0].config.d_mlp) == np.array([[[5], [9]], [[3], [7]], [[5], [9]]])
    sets = [circuit_set(mask, k) for k, mask in enumerate(masks)]
    started = intervene.start(run, tokens, answers, True, 3)
    runs = list(interventions.run_cell(started, sets, means))
    done = [*itertools.product(("keep_only", "knockout"), ("all", "last"))]
    assert [run[:2] for run in runs] == [("good", ""), ("bad", ""), *done]
    for _, _, found in runs[2:]:
        assert found.normalized_logit.shape == (3, len(PAIRS))
        assert torch.equal(found.normalized_logit[0], found.normalized_logit[2])
        assert not torch.equal(found.normalized_logit[0], found.normalized_logit[1])
    summary, prompts = interventions.cell_tables(iter(runs), sets, "format", CHOICES)
    assert (len(summary), len(prompts)) == (12, (2 + 12) * len(PAIRS))
    by_set = prompts[-12:].pivot(index="k", columns="index", values="probability")
    np.testing.assert_array_equal(by_set, runs[-1][2].probability)


def test_a_prefix_that_prompts_share_runs_once_and_changes_nothing(tiny, monkeypatch):
    model, tokenizer = tiny
    prompts = [f"one is 1, two is 2, three is 3, five is 5, {number} is " for number in (4, 7, 9, 11)]
    tokens = torch.from_numpy(tokenizer.encode_batch(prompts))
    answers = torch.from_numpy(tokenizer.number_tokens([4, 7, 9, 11]))
    means = mean_cache.compute(model, tokenizer, [[prompt.replace("is", "was") for prompt in prompts]])
    masks = torch.rand(2, 2, model.config.d_mlp, generator=torch.Generator().manual_seed(3)) < 0.3
    masks = torch.cat([masks, ~masks])
    run, seen = next(ablation.start_runs(model, tokens, answers, 2)), []
    length, cut = tokens.shape[1], ablation.shared_beginning(tokens)
    assert cut == (tokens == tokens[:1]).all(0).tolist().index(False) > 15

    def run_layers(model, x, *rest, **more):
        return seen.append(tuple(x.shape[:2])) or decoder.run_layers(model, x, *rest, **more)

    monkeypatch.setattr(ablation, "run_layers", run_layers)
    for bos in (True, False):
        seen.clear()
        got = ablation.ablate_all_positions(model, run, masks, means, bos, True)
        assert seen == [(1, cut - bos), (4, length - cut)] * 4
        with monkeypatch.context() as patch:
            patch.setattr(ablation, "shared_beginning", lambda tokens: 0)
            whole = ablation.ablate_all_positions(model, run, masks, means, bos, True)
        torch.testing.assert_close(got.normalized_logit, whole.normalized_logit, atol=1e-6, rtol=1e-5)
