"""Areas under the faithfulness curve: against hooks over whole sequences, closed forms, and a planted circuit."""

import itertools

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from test_patching import prepared

from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.faithfulness import answer, compute
from form_invariance.stages.faithfulness.compute import (
    SHARES,
    areas,
    cell_rows,
    curves,
    logit_differences,
    orders_of,
    partners,
    places,
)
from form_invariance.stages.faithfulness.table import FAITHFULNESS_AREAS
from form_invariance.stages.run import Run

FIRST = 2


@pytest.fixture
def run(tiny):
    return Run(*tiny, FIRST)


@pytest.mark.parametrize("name", ["symbolic", "word"])
def test_logit_differences_equal_hooks_over_whole_sequences(run, tiny_folder, name):
    tokens, corrupt, answers = prepared(run.tokenizer, name)
    given = last_token_neurons(run.model, corrupt, FIRST)
    ablated = torch.rand(3, len(run.late), run.width, generator=torch.Generator().manual_seed(0)) < 0.5
    found = logit_differences(run, tokens, answers, ablated, given)
    bridge = oracles.bridge(tiny_folder)
    for number, one in enumerate(ablated):

        def set_neurons(activation, hook, one=one):
            late = int(hook.name.split(".")[1]) - FIRST
            activation[:, -1] = torch.where(one[late], given[late], activation[:, -1])
            return activation

        hooks = [(oracles.post_name(layer), set_neurons) for layer in run.late]
        picked = oracles.last_logits(bridge, tokens, hooks).gather(1, answers)
        np.testing.assert_allclose(found[number], (picked[:, 0] - picked[:, 1]).numpy(), atol=1e-4)
    assert np.ptp(found, axis=0).min() > 1e-3


def test_prompts_of_several_lengths_give_what_each_gives_alone(run):
    tokens, corrupt, answers = prepared(run.tokenizer, "symbolic")
    texts = ["226+68=", "a = 17\nb = 433\nprint(a + b)  # ", "99+6=", "505+250="]
    mixed = run.tokens(texts)
    given = last_token_neurons(run.model, corrupt, FIRST)
    ablated = torch.rand(2, len(run.late), run.width, generator=torch.Generator().manual_seed(1)) < 0.5
    together = logit_differences(run, mixed, answers, ablated, given)
    for row, text in enumerate(texts):
        alone = logit_differences(run, run.tokens([text]), answers[[row]], ablated, given[:, [row]])
        np.testing.assert_allclose(together[:, [row]], alone, atol=1e-5)
    assert len(tokens) == len(texts)


def test_areas_in_closed_form():
    found = areas(np.stack([np.ones(len(SHARES)), SHARES, np.zeros(len(SHARES))]))
    whole = 1 - SHARES[0]
    np.testing.assert_allclose(found["cpr"], [whole, (1 - SHARES[0] ** 2) / 2, 0])
    np.testing.assert_allclose(found["cmd"], [0, whole - (1 - SHARES[0] ** 2) / 2, whole])
    np.testing.assert_allclose(areas(2 - SHARES)["cmd"], areas(SHARES)["cmd"])


def test_curves_are_ratios_of_means():
    rng = np.random.default_rng(0)
    differences, whole, none = rng.normal(size=(4, 9)), 3 + rng.random(9), rng.random(9)
    weights = np.stack([np.ones(9), np.eye(9)[4]])
    found = curves(np.vstack([differences, whole, none]), whole, none, weights)
    expected = (differences.mean(1) - none.mean()) / (whole.mean() - none.mean())
    np.testing.assert_allclose(found[0, :4], expected)
    np.testing.assert_allclose(found[1, :4], (differences[:, 4] - none[4]) / (whole[4] - none[4]))
    np.testing.assert_allclose(found[:, 4:], [[1, 0], [1, 0]], atol=1e-12)
    assert np.isnan(curves(differences, none, none, weights)).all()


def test_a_partner_has_another_answer():
    answers = np.array([5, 5, 7, 5, 9, 7])
    found = partners(answers, np.random.default_rng(0))
    assert (answers[found] != answers).all()
    assert (partners(np.array([3, 3]), np.random.default_rng(0)) == -1).all()


def tables_of(run, candidates, seed):
    """A ranking of the first candidates of each layer, and an attribution of all neurons."""
    rng = np.random.default_rng(seed)
    first, ranking = [], []
    for layer in run.late:
        order = rng.permutation(run.width)
        first.append(pd.DataFrame({"layer": layer, "neuron": order, "rank": np.arange(run.width) + 1}))
        exact = rng.permutation(order[:candidates])
        ranking.append(pd.DataFrame({"layer": layer, "neuron": exact, "rank": np.arange(candidates) + 1}))
    return pd.concat(ranking), pd.concat(first)


def test_orders(run):
    tables = {name: tables_of(run, 20, seed) for seed, name in enumerate(("symbolic", "word"))}
    ranked = {name: places(run, *both) for name, both in tables.items()}
    ranking, first = tables["word"]
    found = orders_of(run, ranked, "word", first, 3, 0, "addition")
    for late, layer in enumerate(run.late):
        own = ranking[ranking["layer"] == layer]["neuron"].tolist()
        rest = [one for one in first[first["layer"] == layer]["neuron"] if one not in own]
        assert np.argsort(found["exact"][0, late]).tolist() == own + rest
        assert (
            np.argsort(found["attribution"][0, late]).tolist() == first[first["layer"] == layer]["neuron"].tolist()
        )
        both = np.stack([one[late] for one in ranked.values()])
        for size in (1, 5, 20, 60):
            inside = set(np.flatnonzero((both < size).all(0)))
            assert set(np.argsort(found["shared"][0, late])[: len(inside)]) == inside
    assert found["random"].shape == (3, len(run.late), run.width)
    assert (np.sort(found["random"], axis=2) == np.arange(run.width)).all()
    assert len({one.tobytes() for one in found["random"]}) == 3
    again = orders_of(run, ranked, "symbolic", tables["symbolic"][1], 3, 0, "addition")
    assert (again["random"] == found["random"]).all()


@pytest.fixture
def rows(run):
    tokens, _, answers = prepared(run.tokenizer, "symbolic")
    ranking, first = tables_of(run, 20, 0)
    orders = orders_of(run, {"symbolic": places(run, ranking, first)}, "symbolic", first, 2, 0, "addition")
    means = last_token_neurons(run.model, tokens, FIRST).mean(1)

    def of(right):
        return pd.DataFrame(cell_rows(run, tokens, right, orders, means, 50, 0, "symbolic", "addition"))

    return of, answers[:, 0]


def test_the_rows_of_a_cell(rows):
    of, right = rows
    table = of(right).assign(format="symbolic")
    assert set(table.columns) == set(FAITHFULNESS_AREAS.columns)
    sizes = table[table["measure"] == "faithfulness"]
    assert sizes.loc[sizes["share"] == 1, ["value", "low", "high"]].to_numpy() == pytest.approx(1)
    assert len(sizes) == 2 * 4 * len(SHARES)
    curve = sizes.set_index(["ablation", "order", "share"])["value"].sort_index()
    area = table.set_index(["ablation", "order", "measure"])["value"]
    for ablation, order in itertools.product(("mean", "resample"), ("exact", "attribution", "shared")):
        own = curve[ablation, order].to_numpy()
        assert area[ablation, order, "cpr"] == pytest.approx(np.trapezoid(own, SHARES))
        gain = area[ablation, order, "cpr"] - area[ablation, "random", "cpr"]
        assert area[ablation, order, "cpr_gain"] == pytest.approx(gain)
    assert ("mean", "random", "cpr_gain") not in area
    assert not np.isclose(curve["mean", "exact", 0.5], curve["resample", "exact", 0.5])


def test_a_shared_order_keeps_half_of_the_gain_over_random_orders(run, monkeypatch):
    level = {"exact": 1.0, "attribution": 0.9, "shared": 0.6, "random": 0.2}
    orders = {order: np.zeros((1, len(run.late), run.width)) for order in level}
    of_order = np.repeat([*level.values()], len(SHARES))
    monkeypatch.setattr(compute, "curves", lambda *_: np.tile(of_order, (51, 1)))
    tokens, _, answers = prepared(run.tokenizer, "symbolic")
    means = last_token_neurons(run.model, tokens, FIRST).mean(1)
    table = pd.DataFrame(cell_rows(run, tokens, answers[:, 0], orders, means, 50, 0, "symbolic"))
    kept = table[table["measure"] == "cpr_retained"].set_index(["ablation", "order"])["value"]
    for ablation in ("mean", "resample"):
        assert kept[ablation].to_dict() == pytest.approx({"attribution": 7 / 8, "shared": 0.5})


def test_where_all_prompts_have_one_answer_nothing_is_defined(rows):
    of, right = rows
    table = of(torch.full_like(right, right[0]))
    assert table["prompts"].eq(0).all()
    assert table[["value", "low", "high"]].isna().all(axis=None)


def test_the_answer_counts_the_cells_above_random():
    key = ("operator", "format", "order", "ablation", "measure", "share", "n_neurons", "value", "low", "high")
    table = []
    for name, ablation in itertools.product(("code", "word"), ("mean", "resample")):
        for order, cpr in (("exact", 0.9), ("attribution", 0.85), ("shared", 0.8), ("random", 0.5)):
            table.append(("addition", name, order, ablation, "cpr", np.nan, -1, cpr, cpr, cpr))
            table.append(("addition", name, order, ablation, "cmd", np.nan, -1, 1 - cpr, 0, 1))
            low = 0.1 if name == "code" else -0.1
            if order != "random":
                table.append(("addition", name, order, ablation, "cpr_gain", np.nan, -1, cpr - 0.5, low, 1))
        table.append(("addition", name, "shared", ablation, "cpr_retained", np.nan, -1, 0.75, 0, 1))
    (told,) = answer.answer({"faithfulness": pd.DataFrame(table, columns=key)}, 100)
    assert "CPR is 0.90 for the best by exact effect, 0.80 for the best in all formats and 0.50" in told.sentence
    assert "(CMD 0.10, 0.20, 0.50)" in told.sentence
    assert told.sentence.count("above random in 1 of 2 cells and keep 75% of what the format's own best gain") == 2
