"""The corrected correlation of two formats' effects against known effects, pandas and split halves."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.experiment.membership import Effects
from form_invariance.stages.overlap.correlation import Measured, answers_of, format_correlation_table
from form_invariance.tables.columns import EVERY_LAYER

LAYER = 3
RNG = np.random.default_rng(0)
FORMATS, OPERATORS = "scw", "+-"
SD = {"neuron": 1.0, "operator": 0.8, "format": 0.6, "prompt": 1.2, "partner": 2.0, "pairing": 1.6}
SIZES = {"neurons": 60, "prompts": 40, "draws": 2}


def effects_of(values, neurons=None):
    """Effects of one layer, (S, P, N); of the neurons 0.. unless they are named."""
    chosen = np.arange(values.shape[-1]) if neurons is None else neurons
    return Effects({LAYER: values}, {LAYER: chosen}, 1000)


def measured(values, answers=None, neurons=None):
    """A cell of effects (S, P, N); without answers, every prompt and partner has one of its own."""
    draws, prompts = values.shape[:2]
    if answers is None:
        answers = np.arange((1 + draws) * prompts).reshape(1 + draws, prompts) + 10000 * RNG.integers(1, 10**9)
    return Measured(effects_of(values, neurons), answers)


def values_of(cell):
    """Effects of a cell's one layer, (S, P, N)."""
    return cell.effects.effects[LAYER]


def simulated(seed, sd=SD, formats=FORMATS, operators="+", **sizes):
    """Cells of independent normal terms with these standard deviations, and each cell's true effects.

    Partners are the same prompts in another order, as in a run: what a partner does is common to all its prompts.
    """
    n, p, s = {**SIZES, **sizes}.values()
    rng = np.random.default_rng(seed)

    def term(name, *shape):
        return sd.get(name, 0) * rng.normal(size=(*shape, n))

    neuron, operator = term("neuron"), {o: term("operator") for o in operators}
    cells, true = {}, {}
    for number, (f, o) in enumerate(product(formats, operators)):
        true[f, o] = neuron + operator[o] + term("format")
        order = rng.permutation(p)
        # A derangement for each draw.
        partners = (
            np.stack([order[(np.argsort(order) + 1 + draw) % p] for draw in range(s)]) if p > 1 else [[0]] * s
        )
        noise = term("prompt", p) + term("partner", p)[np.array(partners)]
        answers = 1000 * number + np.vstack([np.arange(p), partners])
        cells[f, o] = measured(true[f, o] + noise + term("pairing", s, p), answers)
    return cells, true


def table_of(cells, resamples=20, seed=0):
    """The pooled rows, by operator and formats."""
    table = format_correlation_table(cells, resamples, seed)
    return table[table["layer"] == EVERY_LAYER].set_index(["operator", "formats"])


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_the_corrected_correlation_is_the_true_one(rho):
    sd = {"neuron": np.sqrt(rho), "format": np.sqrt(1 - rho), "prompt": 2.0, "partner": 3.0}
    found = []
    for seed in range(30):
        cells, true = simulated(seed, sd, "sc", neurons=300)
        row = table_of(cells, resamples=2, seed=seed).loc["+", "s+c"]
        found.append((row["corrected"] - np.corrcoef(true["s", "+"], true["c", "+"])[0, 1], row["pearson"]))
    difference, pearson = np.mean(found, axis=0)
    assert abs(difference) < 0.03
    noise = (sd["prompt"] ** 2 + sd["partner"] ** 2) / SIZES["prompts"]
    assert pearson == pytest.approx(rho / (1 + noise), abs=0.03)


def test_partners_that_prompts_share_are_no_signal():
    """Products of all different prompts would count what a shared partner does as reliable."""
    found = {"apart": [], "different": []}
    for seed in range(40):
        cells, true = simulated(seed, {"neuron": 1.0, "partner": 4.0}, "sc")
        blind = {cell: measured(values_of(one)) for cell, one in cells.items()}
        for name, some in (("apart", cells), ("different", blind)):
            row = table_of(some, resamples=1).loc["+", "s+c"]
            found[name].append(row["reliability_first"] * np.var(values_of(cells["s", "+"]).mean((0, 1)), ddof=1))
            found[name][-1] -= np.var(true["s", "+"], ddof=1)
    error = np.std(found["apart"], ddof=1) / np.sqrt(40)
    assert abs(np.mean(found["apart"])) < 3 * error
    assert np.mean(found["different"]) > 0.1


def test_answers_that_formats_share_do_not_make_them_alike():
    """Two formats of the same prompts: what the prompts do is common to both, and no format does it."""
    corrected = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        prompts = 3 * rng.normal(size=(1, 30, 80))
        cells = {}
        for place, f in enumerate("sc", 1):
            answers = np.vstack([np.arange(30), 1000 * place + np.arange(30)])
            cells[f, "+"] = measured(prompts + rng.normal(size=80) + rng.normal(size=(1, 30, 80)), answers)
        corrected.append(table_of(cells, resamples=1).loc[("+", "s+c"), "corrected"])
    error = np.std(corrected, ddof=1) / np.sqrt(40)
    assert abs(np.mean(corrected)) < 3 * error < 0.1


def test_correlations_are_those_of_pandas():
    cells, _ = simulated(2)
    row = table_of(cells, seed=4).loc["+", "s+w"]
    means = pd.DataFrame({f: values_of(cells[f, "+"]).mean((0, 1)) for f in "sw"})
    assert row["pearson"] == pytest.approx(means.corr().loc["s", "w"])
    assert row["spearman"] == pytest.approx(means.corr("spearman").loc["s", "w"])


def test_layers_are_pooled_by_sums_over_neurons():
    one, two = (simulated(seed, neurons=n)[0] for seed, n in ((1, 30), (2, 90)))
    both = {
        cell: Measured(
            Effects({3: values_of(own), 4: values_of(two[cell])}, {3: np.arange(30), 4: np.arange(90)}, 90),
            own.answers,
        )
        for cell, own in one.items()
    }
    table = format_correlation_table(both, 3, 0).query("operator == '+'").set_index(["layer", "formats"])
    two = {cell: Measured(own.effects, one[cell].answers) for cell, own in two.items()}
    for layer, alone in ((3, one), (4, two)):
        wanted = table_of(alone, resamples=3).loc["+"].drop(columns="layer")
        pd.testing.assert_frame_equal(table.loc[layer, wanted.columns], wanted, rtol=1e-9)
    centred = {
        f: np.concatenate(
            [own - own.mean() for own in (values_of(part[f, "+"]).mean((0, 1)) for part in (one, two))]
        )
        for f in "sc"
    }
    assert table.loc[(EVERY_LAYER, "s+c"), "pearson"] == pytest.approx(np.corrcoef(*centred.values())[0, 1])
    assert table.loc[EVERY_LAYER, "neurons"].eq(120).all()


def test_neurons_that_are_not_candidates_everywhere_are_left_out():
    cells, _ = simulated(4, neurons=12)
    kept, some, order = np.array([1, 4, 8, 10]), np.array([0, 1, 4, 6, 8, 10]), np.array([10, 2, 4, 8, 1, 5])
    neurons = {"s": order, "c": some, "w": np.arange(12)}
    fewer = {
        (f, o): measured(values_of(one)[..., neurons[f]], one.answers, neurons[f]) for (f, o), one in cells.items()
    }
    chosen = {cell: measured(values_of(one)[..., kept], one.answers) for cell, one in cells.items()}
    found = table_of(fewer)
    assert found["neurons"].eq(4).all()
    pd.testing.assert_frame_equal(found, table_of(chosen))


def test_the_means_over_operators_are_those_of_all_pairs():
    found = table_of(simulated(5, operators=OPERATORS)[0])
    pairs = found[found.index.get_level_values("formats") != "all"]
    for column in ("pearson", "spearman", "corrected"):
        assert found.loc[("all", "all"), column] == pytest.approx(pairs[column].mean())
    assert len(pairs) == 6
    assert len(found) == 9


def test_the_draws_of_partners_are_all_used():
    cells, _ = simulated(9, {"neuron": 1.0, "pairing": 12.0}, draws=9, neurons=400)
    one = {cell: measured(values_of(e)[:1], e.answers[:2]) for cell, e in cells.items()}
    r = [table_of(some).loc[("+", "all"), "pearson"] for some in (cells, one)]
    noise = 144 / SIZES["prompts"]
    assert r == pytest.approx([1 / (1 + noise / 9), 1 / (1 + noise)], abs=0.06)


def test_what_is_not_known_is_not_corrected():
    equal = table_of({(f, o): measured(np.full((2, 4, 9), 0.5)) for f in FORMATS for o in OPERATORS})
    assert equal[["pearson", "spearman", "corrected"]].isna().all(axis=None)
    for prompts in (1, 2):
        few = table_of(simulated(1, prompts=prompts)[0])
        assert few["corrected"].isna().all()
        assert few["pearson"].notna().all()
    noisy = table_of(simulated(0, {"neuron": 1.0, "prompt": 12.0}, neurons=400)[0]).loc["+", "s+c"]
    assert noisy["reliability_first"] < 0.3
    assert noisy[["corrected", "low", "high"]].isna().all()


def test_answers_are_those_of_the_tables_and_a_digit_that_is_asked():
    train = pd.DataFrame({"answer": [3, 4, 5], "digit": -1, "target": ["3", "4", "5"]})
    effects = effects_of(np.zeros((2, 3, 4)))
    draws = [train.assign(answer=train["answer"] + more) for more in (1, 2)]
    assert answers_of(train, draws, effects, "s/+").tolist() == [[3, 4, 5], [4, 5, 6], [5, 6, 7]]
    with pytest.raises(UserError, match="s/\\+ has 3 train prompts and 1 draws of partners"):
        answers_of(train, [train], effects, "s/+")
    digits = train.assign(digit=1)
    assert answers_of(digits, [digits.assign(target=list("789"))] * 2, effects, "s/+")[1].tolist() == [7, 8, 9]
