import numpy as np
import pandas as pd
import pytest

from form_invariance.experiment.controls import draw_control
from form_invariance.problems.operands import OperandRange
from form_invariance.randomness import generator
from form_invariance.stages.heuristics import activations, baselines, pairs
from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.baselines import MIXED_NEURONS, directions, labelled_neurons, mean_effects
from form_invariance.stages.heuristics.names import DIRECTION, MATCHED_BASELINES, NOISE, SHARED
from form_invariance.stages.heuristics.pairs import grid_prompts, make_grid
from form_invariance.stages.heuristics.smoothness import random_maps
from form_invariance.stages.heuristics.table import ordered

SHARED_NEURONS = pd.DataFrame({"layer": [3, 1, 3], "neuron": [70, 5, 2]})


def values(width=80):
    rng = np.random.default_rng(0)
    return [{layer: rng.random(width) for layer in (1, 3)} for _ in MATCHED_BASELINES]


def test_matched_neurons_are_drawn_by_a_stream_for_each_kind_operator_and_layer():
    variance, effects = values()
    table = labelled_neurons(SHARED_NEURONS, variance, effects, 5, "addition")
    assert table["neurons"].unique().tolist() == [SHARED, *MATCHED_BASELINES, DIRECTION, NOISE]
    assert table.index.equals(pd.RangeIndex(len(table)))
    for kind, own in zip(MATCHED_BASELINES, (variance, effects), strict=True):
        for layer, shared in ((1, [5]), (3, [2, 70])):
            mask = np.isin(np.arange(80), shared)
            drawn = draw_control(mask, own[layer], generator(5, "labels", kind, "addition", layer))
            rows = table[(table["neurons"] == kind) & (table["layer"] == layer)]
            assert rows["neuron"].tolist() == np.flatnonzero(drawn).tolist()
    scarce = {layer: np.where(np.arange(80) < 1, own, np.nan) for layer, own in effects.items()}
    fewer = labelled_neurons(SHARED_NEURONS, variance, scarce, 5, "addition")
    assert fewer["neurons"].unique().tolist() == [SHARED, "matched_variance", DIRECTION, NOISE]


def test_a_direction_is_the_mixture_of_its_stream():
    maps = np.random.default_rng(1).normal(size=(5, 30)).astype(np.float32)
    maps[2] = 7  # constant: it has no unit variance and adds nothing
    logits = np.random.default_rng(2).normal(size=(5, 30)).astype(np.float32)
    found = directions(maps, logits, 3, 5, "addition", 1)
    weights = generator(5, "direction-weights", "addition", 1).standard_normal((3, 5), dtype=np.float32)
    weights[:, [0, 1, 3, 4]] /= maps[[0, 1, 3, 4]].std(1)
    weights[:, 2] = 0
    np.testing.assert_allclose(found[0], weights @ maps, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], weights @ logits, rtol=1e-5, atol=1e-5)


def test_mean_effects_are_known_where_every_format_has_the_neuron():
    rankings = {
        "symbolic": pd.DataFrame({"layer": [1, 1, 3], "neuron": [0, 2, 1], "ie_mean": [1.0, 2.0, 5.0]}),
        "word": pd.DataFrame({"layer": [1, 3, 3], "neuron": [2, 0, 1], "ie_mean": [4.0, 9.0, 6.0]}),
    }
    found = mean_effects(rankings, {1: 3, 3: 2})
    np.testing.assert_array_equal(found[1], [np.nan, np.nan, 3])
    np.testing.assert_array_equal(found[3], [np.nan, 5.5])


def test_each_kind_of_baseline_is_a_sample(monkeypatch):
    shared = pd.DataFrame({"layer": np.repeat([1, 3], 30), "neuron": [*range(30)] * 2})
    whole = labelled_neurons(shared, *values(), 5, "addition")
    assert set(whole["neurons"].value_counts()) == {60}
    monkeypatch.setattr(baselines, "MOST_BASELINES", 40)
    table = labelled_neurons(shared, *values(), 5, "addition")
    sizes = {SHARED: 60} | dict.fromkeys([*MATCHED_BASELINES, DIRECTION, NOISE], 40)
    assert table["neurons"].value_counts().to_dict() == sizes
    by_layer = table[table["neurons"] != SHARED].groupby(["layer", "neurons"])["neuron"]
    sizes = by_layer.size().unstack()
    assert sizes.nunique(axis=1).eq(1).all()
    assert sizes.gt(10).all(axis=None)
    of_whole = whole.groupby(["layer", "neurons"])["neuron"]
    for (layer, kind), neurons in by_layer:
        assert set(neurons) < set(of_whole.get_group((layer, kind))), "a part of the matched ones stays matched"


@pytest.mark.slow
def test_every_population_has_maps_of_its_own(tiny, monkeypatch):
    model, tokenizer = tiny
    grid, template = make_grid("a + b", 12), "{a}+{b}="
    width = model.config.d_mlp
    rows = ordered(labelled_neurons(SHARED_NEURONS, *values(width), 5, "addition"))
    seen, check = [], pairs.check_template
    monkeypatch.setattr(pairs, "check_template", lambda *given: seen.append(given) or check(*given))
    maps, written = activations.cell_maps(model, tokenizer, template, "addition", grid, rows, 5)
    assert seen == [(tokenizer, template, "template of addition", OperandRange(0, 11, 0, 22))]
    assert maps.dtype == written.dtype == np.float32
    assert (maps.shape, written.shape) == ((len(rows), 144), (len(rows), 23))
    prompts, answers = grid_prompts(grid, tokenizer, template, "")
    answers = answers[np.unique(grid.answer, return_index=True)[1]]

    def of(layer, numbers):
        chosen = {layer: np.asarray(numbers)}
        return operand_maps(model, tokenizer, prompts, chosen), answer_logits(model, answers, chosen)

    noise = random_maps(grid, 3, generator(5, "smooth-noise", "addition/{a}+{b}="))
    mixtures = {}
    for layer, count in ((1, 1), (3, 2)):
        mixed = np.sort(
            generator(5, "directions", "addition", layer).choice(width, size=MIXED_NEURONS, replace=False)
        )
        mixtures[layer] = directions(*of(layer, mixed), count, 5, "addition", layer)
    for place, (kind, layer, neuron) in enumerate(rows.itertuples(index=False)):
        if kind == NOISE:
            expected = next(noise), np.ones(23)
        elif kind == DIRECTION:
            expected = [part[neuron] for part in mixtures[layer]]
        else:
            expected = [part[0] for part in of(layer, [neuron])]
        np.testing.assert_allclose(maps[place], expected[0], atol=2e-5)
        np.testing.assert_allclose(written[place], expected[1], atol=2e-5)
    for some in (rows[rows["neurons"] == "matched_variance"], rows[:0]):
        maps, written = activations.cell_maps(model, tokenizer, template, "addition", grid, some, 5)
        assert (maps.shape, written.shape) == ((len(some), 144), (len(some), 23))
