"""Keep-only, knockout and full ablation against TransformerLens hooks over whole sequences."""

import numpy as np
import oracles
import pytest
import torch
from test_patching import PAIRS, prepared

from form_invariance.model import decoder, readout
from form_invariance.model.replay import last_token_neurons, select
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.circuit.controls import draw_control
from form_invariance.stages.interventions import compute as interventions
from form_invariance.stages.mean_cache import ablation
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.mean_cache.compute import aligned
from form_invariance.stages.run import Run

CACHE_PROMPTS = {
    "symbolic": [f"{a}+{b}=" for a, b in [(5, 9), (123, 456), (700, 12), (31, 32)]],
    "word": [
        f"Jack has {a} apples. His friend gives him {b} more apples. How many apples does Jack have now? Answer: "
        for a, b in [(5, 9), (123, 456), (700, 12)]
    ],
}


def prepare(model, tokenizer, name):
    tokens, _, _ = prepared(tokenizer, name)
    answers = torch.from_numpy(tokenizer.number_tokens([a + b for a, b in PAIRS]))
    return tokens, answers, mean_cache.compute(model, tokenizer, [CACHE_PROMPTS[name]])


def plain_means(folder, tokenizer, prompts, layers):
    """Means by the plain way: record everything, average, first token (BOS) left as it is."""
    tokens = torch.from_numpy(tokenizer.encode_batch(prompts))
    return oracles.all_neurons(oracles.bridge(folder), tokens, range(layers)).mean(1)  # (layers, T, m)


@pytest.mark.parametrize("name", CACHE_PROMPTS)
@pytest.mark.parametrize("center", [True, False])
def test_keep_only_and_knockout_equal_hooks(tiny, tiny_folder, name, center):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, name)
    layers, width, first = 4, model.config.d_mlp, 2
    plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS[name], layers)
    circuit = torch.rand(3, layers - first, width, generator=torch.Generator().manual_seed(3)) < 0.3
    bridge = oracles.bridge(tiny_folder)
    run = ablation.start_run(model, tokens, answers, first)
    for masks in (circuit, ~circuit):
        everywhere = ablation.ablate_all_positions(model, run, masks, means, bos=True, center=center)
        last = ablation.ablate_last_position(model, run, masks, means, center)
        for got, positions in ((everywhere, slice(1, None)), (last, slice(-1, None))):
            for row, mask in enumerate(masks):
                hooks = [
                    (
                        oracles.post_name(layer),
                        oracles.replace_neurons(mask[layer - first], plain[layer], positions),
                    )
                    for layer in range(first, layers)
                ]
                z = oracles.last_logits(bridge, tokens, hooks)
                expected = oracles.normalized_logit(z, answers, center)
                np.testing.assert_allclose(got.normalized_logit[row], expected, atol=1e-4)
                assert got.predicted[row].tolist() == z.argmax(-1).tolist()
                wanted = z.double().softmax(-1).gather(1, answers[:, None])[:, 0]
                np.testing.assert_allclose(got.probability[row], wanted, atol=1e-6)


def test_without_bos_the_first_token_is_ablated_too(tiny, tiny_folder):
    model, tokenizer = tiny
    bare = PromptTokenizer(tokenizer.tokenizer, None)
    tokens, answers, means = prepare(model, bare, "word")
    plain = plain_means(tiny_folder, bare, CACHE_PROMPTS["word"], 4)
    masks = torch.rand(2, 2, model.config.d_mlp, generator=torch.Generator().manual_seed(3)) < 0.5
    run = ablation.start_run(model, tokens, answers, 2)
    got = ablation.ablate_all_positions(model, run, masks, means, bos=False, center=False)
    bridge = oracles.bridge(tiny_folder)
    for row, mask in enumerate(masks):
        hooks = [
            (oracles.post_name(layer), oracles.replace_neurons(mask[layer - 2], plain[layer], slice(None)))
            for layer in (2, 3)
        ]
        expected = oracles.normalized_logit(oracles.last_logits(bridge, tokens, hooks), answers, False)
        np.testing.assert_allclose(got.normalized_logit[row], expected, atol=1e-4)


def test_logits_are_read_out_in_pieces_of_a_bounded_size(tiny, monkeypatch):
    model, _ = tiny
    x = torch.randn(3, 5, model.config.d_model, generator=torch.Generator().manual_seed(0))
    answers = torch.tensor([3, 1, 4, 1, 5])
    whole = readout.read_out(model, x, answers, True)
    assert whole.normalized_logit.dtype == whole.probability.dtype == torch.float64
    row, sizes = 8 * model.config.vocabulary, []

    def logits(model, rows):
        sizes.append(len(rows))
        return decoder.logits(model, rows)

    monkeypatch.setattr(readout, "logits", logits)
    for allowed, pieces in ((1, [1] * 15), (4 * row + 1, [4, 4, 4, 3])):
        sizes.clear()
        monkeypatch.setattr(readout, "_READOUT_BYTES", allowed)
        again = readout.read_out(model, x, answers, True)
        assert sizes == pieces
        assert torch.equal(again.predicted, whole.predicted)
        for name in ("normalized_logit", "probability"):
            torch.testing.assert_close(getattr(again, name), getattr(whole, name), atol=1e-6, rtol=1e-5)


def test_prompts_are_replayed_in_batches_of_a_bounded_size(tiny, monkeypatch):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "symbolic")
    run = ablation.start_run(model, tokens, answers, 2)
    masks = torch.rand(3, 2, model.config.d_mlp, generator=torch.Generator().manual_seed(3)) < 0.5
    whole, sizes = ablation.ablate_last_position(model, run, masks, means, True), []

    def chosen(cache, prompts):
        part = select(cache, prompts)
        sizes.append(part.residual.shape[1])
        return part

    monkeypatch.setattr(ablation, "select", chosen)
    for rows, batches in ((2, [1, 1, 1, 1]), (11, [3, 1])):
        sizes.clear()
        monkeypatch.setattr(ablation, "replayed_rows", lambda model, rows=rows: rows)
        again = ablation.ablate_last_position(model, run, masks, means, True)
        assert sizes == batches
        torch.testing.assert_close(again.normalized_logit, whole.normalized_logit, atol=1e-6, rtol=1e-5)


def test_full_ablation_equals_hooks(tiny, tiny_folder):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "word")
    bridge = oracles.bridge(tiny_folder)
    cached = torch.from_numpy(tokenizer.encode_batch(CACHE_PROMPTS["word"]))
    recorded = {}

    def record(activation, hook):
        recorded[hook.name] = activation.detach().mean(0)
        return activation

    names = [f"blocks.{layer}.{kind}" for layer in range(4) for kind in ("mlp.hook_post", "attn.hook_z")]
    oracles.last_logits(bridge, cached, [(name, record) for name in names])

    def replace(activation, hook):
        activation = activation.clone()
        activation[:, 1:] = recorded[hook.name][1:].reshape(activation[0, 1:].shape)
        return activation

    z = oracles.last_logits(bridge, tokens, [(name, replace) for name in names])
    got = ablation.run_all_ablated(model, tokens, answers, means, center=True)
    np.testing.assert_allclose(got.normalized_logit, oracles.normalized_logit(z, answers, True), atol=1e-4)


def test_ablating_nothing_is_the_good_run_and_everything_late_needs_no_circuit(tiny):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "symbolic")
    run = ablation.start_run(model, tokens, answers, 2)
    good = ablation.run_unmodified(model, run, True)
    none = torch.zeros(1, 2, model.config.d_mlp, dtype=torch.bool)
    for got in (
        ablation.ablate_all_positions(model, run, none, means, True, True),
        ablation.ablate_last_position(model, run, none, means, True),
    ):
        torch.testing.assert_close(got.normalized_logit[0], good.normalized_logit, atol=1e-5, rtol=1e-5)
    ablated = ablation.ablate_all_positions(model, run, ~none, means, True, True)
    assert (ablated.normalized_logit[0] - good.normalized_logit).abs().max() > 0.01


def test_mean_cache_over_unequal_lengths_counts_from_the_last_token(tiny):
    model, tokenizer = tiny
    short, long = ["226+68=", "17+33="], CACHE_PROMPTS["word"]
    sums = [mean_cache.activation_sums(model, tokenizer, group, batch=2) for group in (short, long)]
    cache = mean_cache.means_of(sums, model.config.n_layers)
    alone = mean_cache.compute(model, tokenizer, [long])
    assert cache.count.tolist() == [5.0] * 4 + [3.0] * 22
    torch.testing.assert_close(cache.neurons[1][4:], alone.neurons[1][4:])
    parts = mean_cache.compute(model, tokenizer, [short])
    expected = (2 * parts.neurons[3][0] + 3 * alone.neurons[3][0]) / 5
    torch.testing.assert_close(cache.neurons[3][0], expected)
    laid = aligned(cache.neurons[0], 5)
    torch.testing.assert_close(laid[1:], cache.neurons[0][:4].flip(0))


def test_variance_is_the_last_tokens(tiny):
    model, tokenizer = tiny
    cache = mean_cache.compute(model, tokenizer, [CACHE_PROMPTS["symbolic"]])
    tokens = torch.from_numpy(tokenizer.encode_batch(CACHE_PROMPTS["symbolic"]))
    expected = last_token_neurons(model, tokens, 0).var(dim=1, unbiased=False)
    torch.testing.assert_close(torch.stack(cache.variance), expected, atol=1e-5, rtol=1e-4)


def test_faithfulness_by_hand():
    good, bad = np.array([1.0, 1.0, 0.5]), np.array([0.5, 0.0, 0.5])
    values = np.array([[0.75, 0.5, 0.1], [1.0, 1.0, 0.5], [0.5, 0.0, 0.5]])
    ratios = interventions.faithfulness(values, good, bad)
    np.testing.assert_allclose(ratios[0][:2], [0.5, 0.5])
    assert np.isnan(ratios[:, 2]).all()
    summary = interventions.summarize(values, good, bad, 50, seed=0)
    np.testing.assert_allclose(summary["faithfulness_mean"], [0.5, 1, 0])
    np.testing.assert_allclose(summary["faithfulness_ratio"], [(1.35 - 1) / 1.5, 1, 0])
    assert (summary["mean_low"] <= summary["faithfulness_mean"] + 1e-12).all()
    everything_undefined = interventions.summarize(values, good, good, 10, seed=0)
    assert np.isnan(everything_undefined["faithfulness_mean"]).all()


def choices(operator):
    return interventions.Choices(
        operator, [50], random_seeds=1, matched_seeds=1, resamples=20, seed=0, center=True
    )


def test_every_operator_draws_controls_of_its_own():
    members = np.zeros((2, 1000), dtype=bool)
    members[:, :50] = True
    values = np.random.default_rng(0).random((2, 1000))
    drawn = {
        operator: interventions.neuron_sets({50: members}, values, values, choices(operator))
        for operator in ("addition", "division")
    }
    for one, other in zip(*drawn.values(), strict=True):
        alike = (one.members & other.members).sum()
        assert alike == (100 if one.neurons == "circuit" else pytest.approx(0, abs=45))
    again = interventions.neuron_sets({50: members}, values, values, choices("addition"))
    assert all((one.members == other.members).all() for one, other in zip(again, drawn["addition"], strict=True))


def test_controls_have_the_circuits_size_and_lie_outside_it():
    rng = np.random.default_rng(0)
    circuit = rng.random(200) < 0.2
    variance = rng.random(200)
    for values in (None, variance):
        control = draw_control(circuit, values, np.random.default_rng(1))
        assert control.sum() == circuit.sum()
        assert not (control & circuit).any()
    matched = [draw_control(circuit, variance, np.random.default_rng(s)) for s in range(30)]
    far = [draw_control(circuit, None, np.random.default_rng(s)) for s in range(30)]
    target = np.sort(variance[circuit])

    def distance(controls):
        return np.mean([np.abs(np.sort(variance[c]) - target).mean() for c in controls])

    assert distance(matched) < 0.5 * distance(far)
    assert draw_control(np.arange(10) < 6, None, rng) is None
    assert draw_control(np.zeros(10, dtype=bool), variance[:10], rng).sum() == 0


def test_equal_sets_are_run_once_and_reported_for_each(tiny):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "symbolic")
    empty = np.zeros((2, model.config.d_mlp), dtype=bool)
    one = empty.copy()
    one[0, 3] = True
    sets = [interventions.NeuronSet("circuit", k, -1, mask) for k, mask in ((1, empty), (2, one), (3, empty))]
    runs = list(interventions.run_cell(Run(model, tokenizer, 2), tokens, answers, sets, means, True, batch=3))
    assert [run[:2] for run in runs] == [
        ("good", ""),
        ("bad", ""),
        ("keep_only", "all"),
        ("keep_only", "last"),
        ("knockout", "all"),
        ("knockout", "last"),
    ]
    for _, _, found in runs[2:]:
        assert found.normalized_logit.shape == (3, len(PAIRS))
        assert torch.equal(found.normalized_logit[0], found.normalized_logit[2])
        assert not torch.equal(found.normalized_logit[0], found.normalized_logit[1])
    summary, prompts = interventions.cell_tables(iter(runs), sets, "format", choices("addition"))
    assert len(summary) == 12
    assert set(summary["means"]) == set(prompts["means"]) == {"format"}
    assert len(prompts) == (2 + 12) * len(PAIRS)
