"""Components of the disagreement against an ANOVA by loops and against known variances; correlations likewise."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.randomness import generator
from form_invariance.stages.disagreement.answer import answer
from form_invariance.stages.disagreement.compute import disagreement_tables
from form_invariance.stages.disagreement.figure import parts_of
from form_invariance.stages.disagreement.products import (
    Measured,
    answers_of,
    apart,
    mean_where,
    square_of_mean,
    weights_of,
)
from form_invariance.stages.disagreement.table import ALL, DISAGREEMENT, FORMAT_CORRELATION, wide
from form_invariance.stages.membership import Effects
from form_invariance.stages.overlap.jaccard import halves
from form_invariance.stages.paraphrases.compute import Wording
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.files import read_table, write_table

LAYER = 3
RNG = np.random.default_rng(0)
FORMATS, OPERATORS = "scw", "+-"
SD = {"neuron": 1.0, "operator": 0.8, "format": 0.6, "wording": 0.4, "prompt": 1.2, "partner": 2.0, "pairing": 1.6}
SIZES = {"neurons": 60, "prompts": 40, "draws": 2, "variants": 2}


def effects_of(values, neurons=None):
    """Effects of one layer, (S, P, N); of the neurons 0.. unless they are named."""
    chosen = np.arange(values.shape[-1]) if neurons is None else neurons
    return Effects({LAYER: values}, {LAYER: chosen}, 1000)


def measured(values, variants=(), answers=None, neurons=None):
    """A cell of effects (S, P, N); without answers, every prompt and partner has one of its own."""
    draws, prompts = values.shape[:2]
    if answers is None:
        answers = np.arange((1 + draws) * prompts).reshape(1 + draws, prompts) + 10000 * RNG.integers(1, 10**9)
    return Measured(effects_of(values, neurons), answers, variants)


def values_of(cell):
    """Effects of a cell's one layer, (S, P, N)."""
    return cell.effects.effects[LAYER]


def simulated(seed, sd=SD, formats=FORMATS, operators=OPERATORS, **sizes):
    """Cells of independent normal terms with these standard deviations, and each cell's true effects.

    Partners are the same prompts in another order, as in a run: what a partner does is common to all its prompts.
    """
    n, p, s, variants = {**SIZES, **sizes}.values()
    rng = np.random.default_rng(seed)

    def term(name, *shape):
        return sd.get(name, 0) * rng.normal(size=(*shape, n))

    neuron, operator = term("neuron"), {o: term("operator") for o in operators}
    cells, true = {}, {}
    for number, (f, o) in enumerate(product(formats, operators)):
        shared = neuron + operator[o] + term("format")
        order = rng.permutation(p)
        # A derangement for each draw.
        partners = (
            np.stack([order[(np.argsort(order) + 1 + draw) % p] for draw in range(s)]) if p > 1 else [[0]] * s
        )
        noise = term("prompt", p) + term("partner", p)[np.array(partners)]
        wordings = [shared + term("wording") for _ in range(variants + 1)]
        every = [wording + noise + term("pairing", s, p) for wording in wordings]
        true[f, o] = wordings[0]
        # Variants are measured with the first draw of partners, on the prompts that are right in them.
        right = np.arange(p) != number % p
        worded = [Wording(right, right, effects_of(values[:1, right])) for values in every[1:]]
        answers = 1000 * number + np.vstack([np.arange(p), partners])
        cells[f, o] = measured(every[0], worded, answers)
    return cells, true


def tables_of(cells, resamples=20, seed=0):
    components, correlations = disagreement_tables(cells, resamples, seed)
    pooled = components[components["layer"] == EVERY_LAYER].set_index(["operator", "component"])
    return pooled, correlations[correlations["layer"] == EVERY_LAYER].set_index(["operator", "formats"])


def test_the_estimates_are_unbiased():
    found = pd.DataFrame([tables_of(simulated(seed)[0], resamples=1)[0].loc[ALL, "value"] for seed in range(120)])
    variance = {name: value**2 for name, value in SD.items()}
    p, s = SIZES["prompts"], SIZES["draws"]
    true = {name: variance[name] for name in ("neuron", "operator", "format", "wording")}
    true |= {"template": variance["format"] + variance["wording"], "template_common": 0.0}
    # Every draw uses all prompts as partners, so that only the pairing differs between draws.
    true |= {"draw": variance["pairing"] / p, "prompt": variance["prompt"] + variance["partner"]}
    true["total"] = true["template"] + true["draw"] / s + true["prompt"] / p
    for name, value in true.items():
        error = found[name].std(ddof=1) / np.sqrt(len(found))
        assert abs(found[name].mean() - value) < 4 * error, name
        # So close that no noise could pass for a difference between formats: that of the partners is 0.1.
        assert error < 0.03 or name == "prompt", name


def test_partners_that_prompts_share_are_no_signal():
    """Products of all different prompts would contain what a shared partner does."""
    found = {"apart": [], "different": []}
    for seed in range(40):
        cells, _ = simulated(seed, {"partner": 4.0}, operators="+", variants=0)
        blind = {cell: measured(values_of(one)) for cell, one in cells.items()}
        for name, some in (("apart", cells), ("different", blind)):
            found[name].append(tables_of(some, resamples=1)[0].loc[("+", "template"), "value"])
    error = np.std(found["apart"], ddof=1) / np.sqrt(40)
    assert abs(np.mean(found["apart"])) < 3 * error
    assert np.mean(found["different"]) > 0.1


def test_answers_that_formats_share_do_not_make_them_alike():
    """Two formats of the same prompts: what the prompts do is common to both, and no format does it."""
    shared = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        prompts = 3 * rng.normal(size=(1, 30, 80))
        cells = {}
        for place, f in enumerate("sc", 1):
            answers = np.vstack([np.arange(30), 1000 * place + np.arange(30)])
            cells[f, "+"] = measured(prompts + rng.normal(size=(1, 30, 80)), (), answers)
        shared.append(tables_of(cells, resamples=1)[0].loc[("+", "neuron"), "value"])
    error = np.std(shared, ddof=1) / np.sqrt(40)
    assert abs(np.mean(shared)) < 3 * error < 0.05


def anova(y):
    """Variance components of one operator's effects, (F, P, N), from mean squares computed by loops."""
    formats, prompts, n = y.shape
    y = y - y.mean(-1, keepdims=True)
    square = dict.fromkeys(("neuron", "format", "prompt"), 0.0)
    for i in range(n):
        own = y[..., i]
        square["neuron"] += formats * prompts * own.mean() ** 2
        for f in range(formats):
            square["format"] += prompts * (own[f].mean() - own.mean()) ** 2
            for p in range(prompts):
                square["prompt"] += (own[f, p] - own[f].mean()) ** 2
    freedom = {"neuron": 1, "format": formats - 1, "prompt": formats * (prompts - 1)}
    ms = {name: square[name] / (freedom[name] * (n - 1)) for name in square}
    return {
        "neuron": (ms["neuron"] - ms["format"]) / (formats * prompts),
        "template": (ms["format"] - ms["prompt"]) / prompts,
        "total": ms["format"] / prompts,
    }, ms["prompt"]


def test_the_closed_forms_are_those_of_anova():
    y = np.random.default_rng(5).normal(size=(3, 4, 6, 7)) * 2 + np.random.default_rng(6).normal(size=(3, 1, 1, 7))
    cells = {(f, "+"): measured(own) for f, own in zip(FORMATS, y, strict=True)}
    found = tables_of(cells)[0].loc["+", "value"]
    wanted, of_prompts = anova(y.mean(1))
    assert found[list(wanted)].to_dict() == pytest.approx(wanted, abs=1e-12)
    centred = y - y.mean(-1, keepdims=True)
    wanted = np.mean([own.mean(1).var(0, ddof=1).sum() / 6 for own in centred])
    assert found["draw"] == pytest.approx(wanted, abs=1e-12)
    assert found["prompt"] / 6 + found["draw"] / 4 == pytest.approx(of_prompts / 6, abs=1e-12)
    one = tables_of({cell: measured(values_of(e)[:1]) for cell, e in cells.items()})[0].loc["+", "value"]
    assert one["prompt"] == pytest.approx(anova(y[:, 0])[1], abs=1e-12)


def test_what_two_formats_means_differ_by_is_the_total():
    cells, _ = simulated(6)
    found = tables_of(cells)[0]
    for o in OPERATORS:
        means = {f: values_of(cells[f, o]).mean((0, 1)) for f in FORMATS}
        half = np.mean([np.var(means[a] - means[b], ddof=1) / 2 for a, b in combinations(FORMATS, 2)])
        assert found.loc[(o, "total"), "value"] == pytest.approx(half)
        value, share = found.loc[o]["value"], found.loc[o]["share"]
        parts = {"template": 1, "format": 1, "wording": 1, "draw": SIZES["draws"], "prompt": SIZES["prompts"]}
        for name, number in parts.items():
            assert share[name] == pytest.approx(value[name] / number / half)
        assert share[["template", "draw", "prompt"]].sum() == pytest.approx(1)
        assert np.isnan(share["neuron"])
    # A neuron's effect in one operator is what it does in all of them, and what it does in this one.
    assert found.loc[[("+", "neuron"), ("-", "neuron")], "value"].mean() == pytest.approx(
        found.loc[[(ALL, "neuron"), (ALL, "operator")], "value"].sum()
    )


def test_copies_of_a_prompt_are_no_signal():
    """Resampled means vary over neurons by twice the noise; neither the signal nor the square of the mean does."""
    biases = []
    for seed in range(20):
        one = measured(np.random.default_rng(seed).normal(size=(1, 14, 100)))
        weights = weights_of({("s", "+"): one}, 200, seed)["s", "+"]
        z = values_of(one)[0] - values_of(one)[0].mean(-1, keepdims=True)
        found = [mean_where(z @ z.T, apart(one, one), weights, weights), square_of_mean(z @ z.T, weights)]
        assert found[1][0] == pytest.approx((z.mean(0) ** 2).sum())
        biases.append([(own[1:].mean() - own[0]) / 99 for own in found])
    assert (np.abs(np.mean(biases, axis=0)) < 0.1 / 14).all()


def covered(found, truth):
    return found["low"] <= truth <= found["high"]


def test_intervals_cover_what_the_neurons_truly_do():
    hits = {"template": [], "neuron": [], "corrected": []}
    for seed in range(40):
        cells, true = simulated(seed, operators="+", variants=0)
        components, correlations = tables_of(cells, resamples=100, seed=seed)
        covariance = np.cov([true[f, "+"] for f in FORMATS])
        shared = covariance[np.triu_indices(3, 1)].mean()
        hits["neuron"].append(covered(components.loc["+", "neuron"], shared))
        template = covariance.trace() / 3 - shared
        hits["template"].append(covered(components.loc["+", "template"], template))
        r = np.corrcoef(true["s", "+"], true["c", "+"])[0, 1]
        hits["corrected"].append(covered(correlations.loc["+", "s+c"], r))
    # Pairings are not resampled, so intervals are a little short; 95 % of 40 are 38.
    assert {name: sum(some) >= 31 for name, some in hits.items()} == dict.fromkeys(hits, True), hits


def test_without_a_difference_formats_do_not_differ_beyond_noise():
    noise = {"neuron": 1.0, "prompt": 1.2, "partner": 2.0, "pairing": 1.6}
    lows = []
    for seed in range(30):
        cells, _ = simulated(seed, noise, operators="+", variants=0)
        lows.append(tables_of(cells, resamples=100, seed=seed)[0].loc[("+", "template"), "low"])
    # 2.5 % of 30 is less than one.
    assert sum(low > 0 for low in lows) <= 2


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_the_corrected_correlation_is_the_true_one(rho):
    sd = {"neuron": np.sqrt(rho), "format": np.sqrt(1 - rho), "prompt": 2.0, "partner": 3.0}
    found = []
    for seed in range(30):
        cells, true = simulated(seed, sd, "sc", "+", neurons=300, variants=0)
        row = tables_of(cells, resamples=2, seed=seed)[1].loc["+", "s+c"]
        found.append((row["corrected"] - np.corrcoef(true["s", "+"], true["c", "+"])[0, 1], row["pearson"]))
    difference, pearson = np.mean(found, axis=0)
    assert abs(difference) < 0.03
    noise = (sd["prompt"] ** 2 + sd["partner"] ** 2) / SIZES["prompts"]
    assert pearson == pytest.approx(rho / (1 + noise), abs=0.03)


def test_correlations_are_those_of_pandas():
    cells, _ = simulated(2, operators="+", variants=0)
    row = tables_of(cells, seed=4)[1].loc["+", "s+w"]
    means = pd.DataFrame({f: values_of(cells[f, "+"]).mean((0, 1)) for f in "sw"})
    assert row["pearson"] == pytest.approx(means.corr().loc["s", "w"])
    assert row["spearman"] == pytest.approx(means.corr("spearman").loc["s", "w"])


def test_the_reliability_is_that_of_split_halves():
    """Without common answers: the mean over splits of the halves' correlation, by Spearman and Brown's formula."""
    cells, _ = simulated(3, operators="+", neurons=400, variants=0)
    cells = {cell: measured(values_of(one)) for cell, one in cells.items()}
    row = tables_of(cells)[1].loc["+", "s+w"]
    own = values_of(cells["s", "+"]).mean(0)
    weights = halves(SIZES["prompts"], generator(4, "split-half", "any"))
    r = np.array([np.corrcoef(both @ own)[0, 1] for both in weights])
    assert row["reliability_first"] == pytest.approx(np.mean(2 * r / (1 + r)), abs=0.01)
    expected = row["pearson"] / np.sqrt(row["reliability_first"] * row["reliability_second"])
    assert row["corrected"] == pytest.approx(expected)


def test_one_factor_is_a_difference_of_scale_alone():
    values = np.random.default_rng(0).normal(size=(1, 1, 50)) * np.ones((2, 6, 1))
    cells = {("s", "+"): measured(values), ("c", "+"): measured(3 * values)}
    components, correlations = tables_of(cells)
    share = components.loc["+", "share"]
    assert share["template"] == pytest.approx(1)
    assert share["scale"] == pytest.approx(1)
    assert components.loc[("+", "scale"), ["low", "high", "share_low", "share_high"]].isna().all()
    row = correlations.loc["+", "s+c"]
    assert tuple(row[["pearson", "spearman", "corrected", "low", "high"]]) == pytest.approx((1, 1, 1, 1, 1))


def test_layers_are_pooled_by_degrees_of_freedom():
    one, two = (simulated(seed, operators="+", neurons=n, variants=0)[0] for seed, n in ((1, 30), (2, 90)))
    for cell, own in two.items():
        two[cell] = Measured(own.effects, one[cell].answers)
    both = {
        cell: Measured(
            Effects({3: values_of(own), 4: values_of(two[cell])}, {3: np.arange(30), 4: np.arange(90)}, 90),
            own.answers,
        )
        for cell, own in one.items()
    }
    table, _ = disagreement_tables(both, 3, 0)
    single = [tables_of(cells, resamples=3)[0].loc["+"] for cells in (one, two)]
    by_layer = {
        layer: rows.set_index("component") for layer, rows in table[table["operator"] == "+"].groupby("layer")
    }
    for name in ("neuron", "template", "draw", "prompt", "total"):
        values = [own.loc[name, "value"] for own in single]
        assert [by_layer[layer].loc[name, "value"] for layer in (3, 4)] == pytest.approx(values)
        assert by_layer[EVERY_LAYER].loc[name, "value"] == pytest.approx(np.average(values, weights=[29, 89]))
    assert by_layer[EVERY_LAYER]["neurons"].eq(120).all()


def test_neurons_that_are_not_candidates_everywhere_are_left_out():
    cells, _ = simulated(4, operators="+", neurons=12)
    kept, some, order = np.array([1, 4, 5, 8, 10]), np.array([0, 1, 4, 5, 6, 8, 10]), np.array([10, 2, 4, 8, 1, 5])
    fewer, chosen = {}, {}
    for (f, o), one in cells.items():
        neurons = {"s": order, "c": some, "w": np.arange(12)}[f]
        worded, worded_kept = [], []
        for variant in one.variants if f == "w" else ():
            values = variant.effects.effects[LAYER]
            worded.append(Wording(variant.right, variant.right, effects_of(values[..., 1:], np.arange(1, 12))))
            worded_kept.append(Wording(variant.right, variant.right, effects_of(values[..., kept])))
        fewer[f, o] = measured(values_of(one)[..., neurons], worded, one.answers, neurons)
        chosen[f, o] = measured(values_of(one)[..., kept], worded_kept, one.answers)
    for found, wanted in zip(tables_of(fewer), tables_of(chosen), strict=True):
        assert found["neurons"].eq(5).all()
        pd.testing.assert_frame_equal(found, wanted)


def test_one_draw_and_one_wording_cannot_be_separated():
    cells, _ = simulated(1, draws=1, variants=0)
    found = tables_of(cells)[0]
    assert found.loc["+", "value"][["draw", "format", "wording"]].isna().all()
    assert found.loc["+", "value"][["neuron", "template", "prompt", "total"]].notna().all()
    assert found.loc["+", "share"][["template", "prompt"]].sum() == pytest.approx(1)
    (said,) = answer(joined(cells), 10)
    assert "wording?" not in said.sentence


def joined(cells):
    names = "disagreement", "format_correlation"
    return dict(zip(names, disagreement_tables(cells, 50, 0), strict=True))


def test_two_prompts_are_enough_if_nothing_is_shared_and_one_says_nothing():
    cells, _ = simulated(1, prompts=2, variants=0)
    alone = {cell: measured(values_of(one)) for cell, one in cells.items()}
    assert tables_of(alone)[0].loc["+", "value"][["neuron", "template", "draw", "prompt"]].notna().all()
    # Two prompts are each other's partners.
    for few in (cells, simulated(1, prompts=1, variants=0)[0]):
        components, correlations = tables_of(few)
        assert components.loc["+", "value"][["template", "prompt"]].isna().all()
        assert correlations["corrected"].isna().all()
        (said,) = answer(joined(few), 10)
        assert "Do formats differ beyond noise? Undefined." in said.sentence


def test_dead_neurons_agree_in_all_formats():
    cells, _ = simulated(8, operators="+", variants=0)
    pad = ((0, 0), (0, 0), (0, SIZES["neurons"]))
    dead = {c: measured(np.pad(values_of(e), pad), (), e.answers) for c, e in cells.items()}
    alive, more = (tables_of(some)[0].loc["+", "value"] for some in (cells, dead))
    # Half of the neurons do nothing: so does half of the variance between neurons and formats.
    for name in ("template", "prompt", "draw"):
        assert more[name] == pytest.approx(alive[name] / 2, rel=0.05)


def test_equal_effects_have_nothing_to_divide():
    cells = {(f, o): measured(np.full((2, 4, 9), 0.5)) for f in FORMATS for o in OPERATORS}
    components, correlations = tables_of(cells)
    assert components["value"].dropna().eq(0).all()
    assert components.loc[ALL, "value"][["invariance", "generic"]].isna().all()
    assert components["share"].isna().all()
    assert correlations[["pearson", "spearman", "corrected"]].isna().all(axis=None)
    assert parts_of(wide(joined(cells)["disagreement"], "share")).isna().all(axis=None)
    (said,) = answer(joined(cells), 10)
    assert "undefined is due to format and wording" in said.sentence


def test_a_low_reliability_is_not_corrected():
    cells, _ = simulated(0, {"neuron": 1.0, "prompt": 12.0}, operators="+", variants=0, neurons=400)
    row = tables_of(cells)[1].loc["+", "s+c"]
    assert row["reliability_first"] < 0.3
    assert row[["corrected", "low", "high"]].isna().all()
    (said,) = answer(joined(cells), 10)
    assert "corrected for reliability it is undefined, because the reliability is below 0.3" in said.sentence


def test_the_draws_of_partners_are_all_used():
    sd = {"neuron": 1.0, "pairing": 12.0}
    cells, _ = simulated(9, sd, operators="+", variants=0, draws=9, neurons=400)
    one = {cell: measured(values_of(e)[:1], (), e.answers[:2]) for cell, e in cells.items()}
    r = [tables_of(some)[1].loc[("+", ALL), "pearson"] for some in (cells, one)]
    noise = 144 / SIZES["prompts"]
    assert r == pytest.approx([1 / (1 + noise / 9), 1 / (1 + noise)], abs=0.06)


def true_ratios(true):
    """Invariance and generic share of the true effects of all cells, from their covariances."""
    mean = {
        (same_format, same_operator): np.mean(
            [
                np.cov(one, two)[0, 1]
                for ((f, o), one), ((g, p), two) in product(true.items(), repeat=2)
                if ((f == g), (o == p)) == (same_format, same_operator)
            ]
        )
        for same_format, same_operator in product((False, True), repeat=2)
    }
    operators = mean[False, True] - mean[False, False]
    own = mean[True, True] - mean[False, True] - (mean[True, False] - mean[False, False])
    return operators / (operators + own), mean[False, False] / mean[True, True]


@pytest.mark.parametrize(("operator", "own"), [(1.0, 0.0), (0.8, 0.6), (0.0, 1.0)])
@pytest.mark.parametrize("generic", [0.0, 1.0])
def test_what_belongs_to_the_operator_and_what_is_generic_are_planted_separately(operator, own, generic):
    sd = {"neuron": generic, "operator": operator, "format": own, "prompt": 1.2}
    hits, found = [], []
    for seed in range(20):
        cells, true = simulated(seed, sd, neurons=300, variants=0)
        rows = tables_of(cells, resamples=100, seed=seed)[0].loc[ALL].loc[["invariance", "generic"]]
        hits.append([covered(row, value) for row, value in zip(rows.iloc, true_ratios(true), strict=True)])
        found.append(rows["value"])
    # 95 % of 20 are 19. How prompts are paired is not resampled: with partners of sd 2, 84 to 100 of 100 covered.
    assert (np.sum(hits, axis=0) >= 17).all(), hits
    truth = operator**2 / (operator**2 + own**2), generic**2 / (generic**2 + operator**2 + own**2)
    assert np.mean(found, axis=0) == pytest.approx(truth, abs=0.03)


def test_one_operator_has_no_operators_component():
    found = tables_of(simulated(0, operators="+")[0])[0].loc[ALL, "value"]
    assert found[["neuron", "operator", "template_common", "invariance", "generic"]].isna().all()
    assert found[["template", "prompt"]].notna().all()


def test_one_format_is_refused():
    cells, _ = simulated(0, formats="s")
    with pytest.raises(UserError, match="has the effects of one format"):
        disagreement_tables(cells, 2, 0)


def test_the_tables_are_written_and_the_answer_follows_them(tmp_path):
    cells, _ = simulated(3)
    tables = joined(cells)
    for (name, table), schema in zip(tables.items(), (DISAGREEMENT, FORMAT_CORRELATION), strict=True):
        write_table(table, tmp_path / f"{name}.parquet", schema, {})
        assert len(read_table(tmp_path / f"{name}.parquet", schema)) == len(table)
    mean = tables_of(cells, 50)[0].loc[ALL]
    (said,) = answer(tables, 10)
    for name in ("template", "format", "wording"):
        value, low, high = (f"{mean.loc[name, column]:.0%}" for column in ("share", "share_low", "share_high"))
        assert (
            f"{value} [{low}, {high}] is due to" in said.sentence or f"{value} [{low}, {high}] to" in said.sentence
        )
    assert "Do formats differ beyond noise? Yes." in said.sentence
    assert "Do formats differ beyond wording? Yes." in said.sentence
    for name, words in (("invariance", "is the same in all its formats"), ("generic", "of the variance of the")):
        value, low, high = (f"{mean.loc[name, column]:.0%}" for column in ("value", "low", "high"))
        assert f"{value} [{low}, {high}] {words}" in said.sentence
    assert said.table["operator"].tolist() == ["+", "-", ALL]


def test_bars_end_at_one_and_negative_parts_are_not_drawn():
    columns = ["template", "format", "wording", "draw", "prompt", "total"]
    rows = [(0.6, 0.5, 0.1, 0.1, 0.3, 1.0), (-0.2, np.nan, np.nan, 0.6, 0.6, 1.0)]
    drawn = parts_of(pd.DataFrame(rows, columns=columns))
    assert drawn.sum(axis=1).tolist() == pytest.approx([1, 1])
    assert drawn.iloc[0].tolist() == pytest.approx([0.5, 0, 0.1, 0.1, 0.3])
    assert drawn.iloc[1].tolist() == pytest.approx([0, 0, 0, 0.5, 0.5])


def test_tables_of_other_prompts_are_refused():
    train = pd.DataFrame({"answer": [3, 4, 5], "digit": -1, "target": ["3", "4", "5"]})
    effects = effects_of(np.zeros((2, 3, 4)))
    draws = [train.assign(answer=train["answer"] + more) for more in (1, 2)]
    assert answers_of(train, draws, effects, "s/+").tolist() == [[3, 4, 5], [4, 5, 6], [5, 6, 7]]
    with pytest.raises(UserError, match="s/\\+ has 3 train prompts and 1 draws of partners"):
        answers_of(train, [train], effects, "s/+")


def test_a_digit_that_is_asked_is_the_answer():
    train = pd.DataFrame({"answer": [31, 45], "digit": 1, "target": ["1", "5"]})
    draw = train.assign(target=["7", "8"])
    assert answers_of(train, [draw], effects_of(np.zeros((1, 2, 4))), "s/+").tolist() == [[1, 5], [7, 8]]
