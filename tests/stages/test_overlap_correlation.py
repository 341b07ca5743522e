from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from form_invariance.errors import UserError
from form_invariance.experiment.membership import Effects
from form_invariance.stages.overlap.correlation import CellEffects, answers_of, format_correlation_table
from form_invariance.statistics import bootstrap_weights, resampled_interval
from form_invariance.tables.columns import EVERY_LAYER

RESAMPLES, SEED = 6, 3


def plain_centred(cells, layers, values_of):
    """Values of the neurons that are candidates in all cells, centred in each layer, (..., neurons)."""
    found = {key: [] for key in cells}
    for layer in layers:
        candidates = {key: cell.effects.candidates[layer].tolist() for key, cell in cells.items()}
        common = sorted(set.intersection(*map(set, candidates.values())))
        for key, cell in cells.items():
            places = [candidates[key].index(neuron) for neuron in common]
            rows = values_of(cell.effects.effects[layer][..., places].mean(0))
            found[key].append(rows - rows.mean(-1, keepdims=True))
    return {key: np.concatenate(parts, axis=-1) for key, parts in found.items()}


def plain_corrected(cells, rows, one, two):
    """The corrected correlation of all prompts and of every resample, and the variance of all prompts."""
    drawn = {key: [np.ones(9), *bootstrap_weights(9, RESAMPLES, SEED, "disagreement", *key)] for key in (one, two)}

    def mean_product(one, two, sample):
        values, weights = [], []
        for p, q in product(range(9), repeat=2):
            if not {*cells[one].answers[:, p]} & {*cells[two].answers[:, q]}:
                values.append(rows[one][p] @ rows[two][q])
                weights.append(drawn[one][sample][p] * drawn[two][sample][q])
        return np.average(values, weights=weights)

    pairs, samples = ((one, two), (one, one), (two, two)), range(1 + RESAMPLES)
    both, first, second = ([mean_product(*pair, sample) for sample in samples] for pair in pairs)
    return both / np.sqrt(np.multiply(first, second)), first[0]


def test_every_value_equals_plain_loops():
    """The cells' candidates differ, also in their order, and their prompts share some answers."""
    rng, every = np.random.default_rng(0), {}
    for operator in "+-":
        own = {3: rng.normal(size=14), 4: 3 + 2 * rng.normal(size=20)}
        for name in "scw":
            some = {layer: rng.permutation(len(values))[:-2] for layer, values in own.items()}
            effects = {layer: own[layer][some[layer]] + rng.normal(size=(2, 9, len(some[layer]))) for layer in own}
            every[name, operator] = CellEffects(Effects(effects, some, 20), rng.integers(60, size=(3, 9)))
    table = format_correlation_table(every, RESAMPLES, SEED).set_index(["operator", "layer", "formats"])
    for operator, layers in product("+-", [(3,), (4,), (3, 4)]):
        cells = {key: cell for key, cell in every.items() if key[1] == operator}
        rows = plain_centred(cells, layers, lambda effects: effects)
        ranked = plain_centred(cells, layers, lambda effects: rankdata(effects.mean(0)))
        place = operator, layers[0] if len(layers) == 1 else EVERY_LAYER
        for one, two in combinations(cells, 2):
            row = table.loc[(*place, f"{one[0]}+{two[0]}")]
            assert row["pearson"] == pytest.approx(np.corrcoef(rows[one].mean(0), rows[two].mean(0))[0, 1])
            assert row["spearman"] == pytest.approx(np.corrcoef(ranked[one], ranked[two])[0, 1])
            corrected, signal = plain_corrected(cells, rows, one, two)
            assert row["reliability_first"] == pytest.approx(signal / (rows[one].mean(0) ** 2).sum())
            limits = resampled_interval(corrected)
            assert row[["corrected", "low", "high"]].tolist() == pytest.approx([*limits])
            assert row["neurons"] == rows[one].shape[1]
    pairs = table.drop(index="all", level="operator").drop(index="all", level="formats")
    for layer, column in product((3, 4, EVERY_LAYER), ("pearson", "spearman", "corrected")):
        assert table.loc[("all", layer, "all"), column] == pytest.approx(pairs.xs(layer, level=1)[column].mean())
    assert len(table) == 3 * (2 * (3 + 1) + 1)


def simulated(seed, rho=1.0, prompt=1.0, partner=2.0, prompts=40):
    """Cells whose effects add a neuron's, a prompt's and a partner's part; and the neurons' parts by format."""
    rng = np.random.default_rng(seed)
    shared, cells, true = rng.normal(size=300), {}, {}
    for number, name in enumerate("sc"):
        true[name] = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=300)
        order = rng.permutation(prompts)
        # The partners are the same prompts in another order, so a partner has one effect on all its prompts.
        partners = np.stack([order[(np.argsort(order) + 1 + draw) % prompts] for draw in range(2)])
        values = true[name] + prompt * rng.normal(size=(prompts, 300))
        values = values + partner * rng.normal(size=(prompts, 300))[partners]
        answers = 1000 * number + np.vstack([np.arange(prompts), partners])
        cells[name, "+"] = CellEffects(Effects({3: values}, {3: np.arange(300)}, 1000), answers)
    return cells, true


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_the_corrected_correlation_is_the_true_one(rho):
    found = []
    for seed in range(30):
        cells, true = simulated(seed, rho, 2.0, 3.0)
        row = format_correlation_table(cells, 2, seed).set_index(["layer", "formats"]).loc[EVERY_LAYER, "s+c"]
        found.append((row["corrected"] - np.corrcoef(true["s"], true["c"])[0, 1], row["pearson"]))
    difference, pearson = np.mean(found, axis=0)
    assert abs(difference) < 0.03
    assert pearson == pytest.approx(rho / (1 + (2.0**2 + 3.0**2) / 40), abs=0.03)


def test_what_is_not_known_is_not_corrected():
    equal = CellEffects(Effects({3: np.full((2, 4, 9), 0.5)}, {3: np.arange(9)}, 9), np.arange(12).reshape(3, 4))
    table = format_correlation_table({(name, "+"): equal for name in "sc"}, 2, 0)
    assert table[["pearson", "spearman", "corrected"]].isna().all(axis=None)
    for cells, _ in (simulated(1, prompts=1), simulated(1, prompts=2), simulated(0, prompt=12.0)):
        row = format_correlation_table(cells, 2, 0).iloc[0]
        assert row[["corrected", "low", "high"]].isna().all()
        assert -1 <= row["pearson"] <= 1


def test_answers_are_those_of_the_tables_and_a_digit_that_is_asked():
    train = pd.DataFrame({"answer": [3, 4, 5], "digit": -1, "target": ["3", "4", "5"]})
    effects = Effects({3: np.zeros((2, 3, 4))}, {3: np.arange(4)}, 4)
    draws = [train.assign(answer=train["answer"] + more) for more in (1, 2)]
    assert answers_of(train, draws, effects, "s/+").tolist() == [[3, 4, 5], [4, 5, 6], [5, 6, 7]]
    with pytest.raises(UserError, match="s/\\+ has 3 train prompts and 1 draws of partners"):
        answers_of(train, [train], effects, "s/+")
    for digit in (0, 1):
        digits = train.assign(digit=digit)
        found = answers_of(digits, [digits.assign(target=list("789"))] * 2, effects, "s/+")
        assert found[1].tolist() == [7, 8, 9]
