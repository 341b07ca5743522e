"""Components of the disagreement against an ANOVA by loops and against known variances; correlations likewise."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.stages.disagreement.answer import answer
from form_invariance.stages.disagreement.compute import disagreement_tables
from form_invariance.stages.disagreement.correlation import reliability
from form_invariance.stages.disagreement.figure import parts_of
from form_invariance.stages.disagreement.products import Variant, other_prompts, weights_of
from form_invariance.stages.disagreement.table import ALL, DISAGREEMENT, FORMAT_CORRELATION, wide
from form_invariance.stages.overlap.compute import random_halves
from form_invariance.stages.patching.effects import Effects
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.files import read_table, write_table

LAYER = 3
FORMATS, OPERATORS = "scw", "+-"
SD = {
    "neuron": 1.0,
    "operator": 0.8,
    "format": 0.6,
    "wording": 0.4,
    "draw": 0.3,
    "prompt": 1.2,
    "partner": 1.6,
}
SIZES = {"neurons": 100, "prompts": 14, "draws": 3, "variants": 2}


def effects_of(values, neurons=None):
    """Effects of one layer, (S, P, N); of the neurons 0.. unless they are named."""
    chosen = np.arange(values.shape[-1]) if neurons is None else neurons
    return Effects({LAYER: values}, {LAYER: chosen}, 1000)


def simulated(seed, sd=SD, formats=FORMATS, operators=OPERATORS, **sizes):
    """Cells and variants of independent normal terms with these standard deviations; true effects."""
    n, p, s, variants = {**SIZES, **sizes}.values()
    rng = np.random.default_rng(seed)

    def term(name, *shape):
        return sd.get(name, 0) * rng.normal(size=(*shape, n))

    neuron, operator = term("neuron"), {o: term("operator") for o in operators}
    cells, worded, true = {}, {}, {}
    for f, o in product(formats, operators):
        shared = neuron + operator[o] + term("format")
        noise = term("prompt", p) + term("draw", s, 1)
        wordings = [shared + term("wording") for _ in range(variants + 1)]
        every = [wording + noise + term("partner", s, p) for wording in wordings]
        true[f, o] = wordings[0]
        cells[f, o] = effects_of(every[0])
        # Variants are measured with the first draw of partners, on the prompts that are right in them.
        right = np.arange(p) != len(worded) % p
        worded[f, o] = [Variant(right, effects_of(values[:1, right])) for values in every[1:]]
    return cells, worded, true


def tables_of(cells, variants=None, resamples=20, seed=0):
    components, correlations = disagreement_tables(cells, variants or {}, resamples, seed)
    pooled = components[components["layer"] == EVERY_LAYER].set_index(["operator", "component"])
    return pooled, correlations[correlations["layer"] == EVERY_LAYER].set_index(["operator", "formats"])


def test_the_estimates_are_unbiased():
    found = pd.DataFrame([tables_of(*simulated(seed)[:2], resamples=1)[0].loc[ALL, "value"] for seed in range(80)])
    variance = {name: value**2 for name, value in SD.items()}
    true = {
        name: variance[name] for name in ("neuron", "operator", "format", "wording", "draw", "prompt", "partner")
    }
    true |= {"template": variance["format"] + variance["wording"], "template_common": 0.0}
    p, s = SIZES["prompts"], SIZES["draws"]
    noise = variance["draw"] / s + variance["prompt"] / p + variance["partner"] / (s * p)
    true["total"] = true["template"] + noise
    for name, value in true.items():
        error = found[name].std(ddof=1) / np.sqrt(len(found))
        assert abs(found[name].mean() - value) < 4 * error, name
        # So close that no component could pass for another one.
        assert error < 0.02, name


def anova(y):
    """Variance components of one operator's effects, (F, S, P, N), from mean squares computed by loops."""
    formats, draws, prompts, n = y.shape
    y = y - y.mean(-1, keepdims=True)
    square = dict.fromkeys(("neuron", "format", "draw", "prompt", "rest"), 0.0)
    for i in range(n):
        own = y[..., i]
        square["neuron"] += formats * draws * prompts * own.mean() ** 2
        for f in range(formats):
            square["format"] += draws * prompts * (own[f].mean() - own.mean()) ** 2
            for d in range(draws):
                square["draw"] += prompts * (own[f, d].mean() - own[f].mean()) ** 2
            for p in range(prompts):
                square["prompt"] += draws * (own[f, :, p].mean() - own[f].mean()) ** 2
            for d, p in product(range(draws), range(prompts)):
                rest = own[f, d, p] - own[f, d].mean() - own[f, :, p].mean() + own[f].mean()
                square["rest"] += rest**2
    freedom = {
        "neuron": 1,
        "format": formats - 1,
        "draw": formats * (draws - 1),
        "prompt": formats * (prompts - 1),
    }
    freedom["rest"] = formats * (draws - 1) * (prompts - 1)
    ms = {name: square[name] / (freedom[name] * (n - 1)) for name in square}
    return {
        "neuron": (ms["neuron"] - ms["format"]) / (formats * draws * prompts),
        "template": (ms["format"] - ms["draw"] - ms["prompt"] + ms["rest"]) / (draws * prompts),
        "draw": (ms["draw"] - ms["rest"]) / prompts,
        "prompt": (ms["prompt"] - ms["rest"]) / draws,
        "partner": ms["rest"],
        "total": ms["format"] / (draws * prompts),
    }


def test_the_closed_forms_are_those_of_anova():
    cells, _, _ = simulated(5, operators="+", neurons=7, prompts=5)
    wanted = anova(np.stack([one.effects[LAYER] for one in cells.values()]))
    found = tables_of(cells)[0].loc["+", "value"]
    assert found[list(wanted)].to_dict() == pytest.approx(wanted, abs=1e-12)


def test_what_two_formats_means_differ_by_is_the_total():
    cells, variants, _ = simulated(6)
    found = tables_of(cells, variants)[0]
    for o in OPERATORS:
        means = {f: cells[f, o].effects[LAYER].mean((0, 1)) for f in FORMATS}
        half = np.mean([np.var(means[a] - means[b], ddof=1) / 2 for a, b in combinations(FORMATS, 2)])
        assert found.loc[(o, "total"), "value"] == pytest.approx(half)
        value, share, (p, s) = found.loc[o]["value"], found.loc[o]["share"], (SIZES["prompts"], SIZES["draws"])
        parts = {"template": 1, "format": 1, "wording": 1, "draw": s, "prompt": p, "partner": s * p}
        for name, number in parts.items():
            assert share[name] == pytest.approx(value[name] / number / half)
        assert share[["template", "draw", "prompt", "partner"]].sum() == pytest.approx(1)
        assert np.isnan(share["neuron"])
    # A neuron's effect in one operator is what it does in all of them, and what it does in this one.
    assert found.loc[[("+", "neuron"), ("-", "neuron")], "value"].mean() == pytest.approx(
        found.loc[[(ALL, "neuron"), (ALL, "operator")], "value"].sum()
    )


def test_copies_of_a_prompt_are_no_signal():
    """With noise alone, a resampled mean varies over neurons more than the mean does; the estimate does not."""
    noise = {"partner": 1.0}
    biases = []
    for seed in range(20):
        cells, _, _ = simulated(seed, noise, operators="+", draws=1, variants=0)
        ((cell, one), *_) = cells.items()
        weights = weights_of({cell: one}, 200, seed)[cell]
        z = one.effects[LAYER][0] - one.effects[LAYER][0].mean(-1, keepdims=True)
        found = other_prompts(z @ z.T, weights) / (z.shape[1] - 1)
        biases.append(found[1:].mean() - found[0])
    assert abs(np.mean(biases)) < 0.1 / SIZES["prompts"]


def covered(found, truth):
    return found["low"] <= truth <= found["high"]


def test_intervals_cover_what_the_neurons_truly_do():
    hits = {"template": [], "neuron": [], "corrected": []}
    for seed in range(40):
        cells, _, true = simulated(seed, operators="+", variants=0)
        components, correlations = tables_of(cells, resamples=100, seed=seed)
        covariance = np.cov([true[f, "+"] for f in FORMATS])
        shared = covariance[np.triu_indices(3, 1)].mean()
        hits["neuron"].append(covered(components.loc["+", "neuron"], shared))
        template = covariance.trace() / 3 - shared
        hits["template"].append(covered(components.loc["+", "template"], template))
        r = np.corrcoef(true["s", "+"], true["c", "+"])[0, 1]
        hits["corrected"].append(covered(correlations.loc["+", "s+c"], r))
    # Draws are not resampled, so intervals are a little short; 95 % of 40 are 38.
    assert {name: sum(some) >= 31 for name, some in hits.items()} == dict.fromkeys(hits, True), hits


def test_without_a_difference_formats_do_not_differ_beyond_noise():
    noise = {"neuron": 1.0, "prompt": 1.2, "partner": 1.6}
    lows = []
    for seed in range(30):
        cells, _, _ = simulated(seed, noise, operators="+", variants=0)
        lows.append(tables_of(cells, resamples=100, seed=seed)[0].loc[("+", "template"), "low"])
    # 2.5 % of 30 is less than one.
    assert sum(low > 0 for low in lows) <= 2


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_the_corrected_correlation_is_the_true_one(rho):
    sd = {"neuron": np.sqrt(rho), "format": np.sqrt(1 - rho), "prompt": 2.5}
    found = []
    for seed in range(30):
        cells, _, true = simulated(seed, sd, "sc", "+", neurons=300, draws=2, variants=0)
        row = tables_of(cells, resamples=2, seed=seed)[1].loc["+", "s+c"]
        found.append((row["corrected"] - np.corrcoef(true["s", "+"], true["c", "+"])[0, 1], row["pearson"]))
    difference, pearson = np.mean(found, axis=0)
    assert abs(difference) < 0.03
    noise = sd["prompt"] ** 2 / SIZES["prompts"]
    assert pearson == pytest.approx(rho / (1 + noise), abs=0.03)


def test_correlations_are_those_of_numpy_and_pandas():
    cells, _, _ = simulated(2, operators="+", prompts=9, variants=0)
    row = tables_of(cells, seed=4)[1].loc["+", "s+w"]
    means = pd.DataFrame({f: cells[f, "+"].effects[LAYER].mean((0, 1)) for f in "sw"})
    assert row["pearson"] == pytest.approx(means.corr().loc["s", "w"])
    assert row["spearman"] == pytest.approx(means.corr("spearman").loc["s", "w"])
    own = cells["s", "+"].effects[LAYER].mean(0)
    stepped = []
    for halves in random_halves(9, 4, "disagreement/s/+"):
        r = np.corrcoef(*(own[half].mean(0) for half in halves))[0, 1]
        stepped.append(9 / 4 * r / (1 + 5 / 4 * r))
    assert row["reliability_first"] == pytest.approx(np.mean(stepped))
    assert row["corrected"] == pytest.approx(
        row["pearson"] / np.sqrt(row["reliability_first"] * row["reliability_second"])
    )


def test_halves_of_equal_prompts_are_the_variance_without_the_prompts_part():
    """The mean over all splits is the signal's share of the variance of the mean (Guttman): 20 come close."""
    cells, _, _ = simulated(3, operators="+", neurons=400, prompts=40, draws=1, variants=0)
    one = next(iter(cells.values()))
    z = one.effects[LAYER][0] - one.effects[LAYER][0].mean(-1, keepdims=True)
    every = np.ones((1, 40))
    signal = other_prompts(z @ z.T, every)[0] / 399
    assert reliability(z @ z.T, every, 0, "any")[0] == pytest.approx(signal / np.var(z.mean(0), ddof=1), abs=0.01)


def test_one_factor_is_a_difference_of_scale_alone():
    values = np.random.default_rng(0).normal(size=(1, 1, 50)) * np.ones((2, 6, 1))
    cells = {("s", "+"): effects_of(values), ("c", "+"): effects_of(3 * values)}
    components, correlations = tables_of(cells)
    share = components.loc["+", "share"]
    assert share["template"] == pytest.approx(1)
    assert share["scale"] == pytest.approx(1)
    assert components.loc[("+", "scale"), ["low", "high", "share_low", "share_high"]].isna().all()
    row = correlations.loc["+", "s+c"]
    assert tuple(row[["pearson", "spearman", "corrected", "low", "high"]]) == pytest.approx((1, 1, 1, 1, 1))


def test_layers_are_pooled_by_degrees_of_freedom():
    one, two = (simulated(seed, operators="+", neurons=n)[:2] for seed, n in ((1, 30), (2, 90)))
    both = {
        cell: Effects(
            {3: e.effects[LAYER], 4: two[0][cell].effects[LAYER]}, {3: np.arange(30), 4: np.arange(90)}, 90
        )
        for cell, e in one[0].items()
    }
    table, _ = disagreement_tables(both, {}, 3, 0)
    apart = [tables_of(cells, resamples=3)[0].loc["+"] for cells, _ in (one, two)]
    by_layer = {
        layer: rows.set_index("component") for layer, rows in table[table["operator"] == "+"].groupby("layer")
    }
    for name in ("neuron", "template", "draw", "prompt", "partner", "total"):
        values = [own.loc[name, "value"] for own in apart]
        assert [by_layer[layer].loc[name, "value"] for layer in (3, 4)] == pytest.approx(values)
        assert by_layer[EVERY_LAYER].loc[name, "value"] == pytest.approx(np.average(values, weights=[29, 89]))
    assert by_layer[EVERY_LAYER]["neurons"].eq(120).all()


def test_neurons_that_are_not_candidates_everywhere_are_left_out():
    cells, variants, _ = simulated(4, operators="+", neurons=12)
    kept = np.array([1, 4, 5, 8, 10])
    order = np.array([10, 2, 4, 8, 1, 5])
    fewer = dict(cells)
    fewer["s", "+"] = effects_of(cells["s", "+"].effects[LAYER][..., order], order)
    some = np.array([0, 1, 4, 5, 6, 8, 10])
    fewer["c", "+"] = effects_of(cells["c", "+"].effects[LAYER][..., some], some)
    worded = {place: [] for place in ("first", "kept")}
    for variant in variants["w", "+"]:
        values = variant.effects.effects[LAYER]
        worded["first"].append(Variant(variant.right, effects_of(values[..., 1:], np.arange(1, 12))))
        worded["kept"].append(Variant(variant.right, effects_of(values[..., kept])))
    found = tables_of(fewer, {("w", "+"): worded["first"]})
    chosen = {cell: effects_of(e.effects[LAYER][..., kept]) for cell, e in cells.items()}
    for one, wanted in zip(found, tables_of(chosen, {("w", "+"): worded["kept"]}), strict=True):
        assert one["neurons"].eq(5).all()
        pd.testing.assert_frame_equal(one, wanted)


def test_one_draw_and_one_wording_cannot_be_separated():
    cells, _, _ = simulated(1, draws=1, variants=0)
    found = tables_of(cells)[0]
    assert found.loc["+", "value"][["draw", "partner", "format", "wording"]].isna().all()
    assert found.loc["+", "value"][["neuron", "template", "prompt", "total"]].notna().all()
    assert found.loc["+", "share"][["template", "prompt"]].sum() == pytest.approx(1)
    (said,) = answer(joined(cells), 10)
    assert "wording?" not in said.sentence


def joined(cells, variants=None):
    names = "disagreement", "format_correlation"
    return dict(zip(names, disagreement_tables(cells, variants or {}, 50, 0), strict=True))


def test_two_prompts_are_enough_and_one_says_nothing():
    two = tables_of(simulated(1, prompts=2, variants=0)[0])[0].loc["+", "value"]
    assert two[["neuron", "template", "prompt", "partner"]].notna().all()
    components, correlations = tables_of(simulated(1, prompts=1, variants=0)[0])
    assert components.loc["+", "value"][["template", "prompt", "total"]].isna().all()
    assert correlations["corrected"].isna().all()
    (said,) = answer(joined(simulated(1, prompts=1, variants=0)[0]), 10)
    assert "Do formats differ beyond noise? Undefined." in said.sentence


def test_dead_neurons_agree_in_all_formats():
    cells, _, _ = simulated(8, operators="+", variants=0)
    dead = {c: effects_of(np.pad(e.effects[LAYER], ((0, 0), (0, 0), (0, 100)))) for c, e in cells.items()}
    alive, more = (tables_of(some)[0].loc["+", "value"] for some in (cells, dead))
    # Half of the neurons do nothing: so does half of the variance between neurons and formats.
    for name in ("template", "prompt", "partner"):
        assert more[name] == pytest.approx(alive[name] / 2, rel=0.05)


def test_equal_effects_have_nothing_to_divide():
    cells = {(f, o): effects_of(np.full((2, 4, 9), 0.5)) for f in FORMATS for o in OPERATORS}
    components, correlations = tables_of(cells)
    assert components["value"].dropna().eq(0).all()
    assert components["share"].isna().all()
    assert correlations[["pearson", "spearman", "corrected"]].isna().all(axis=None)
    assert parts_of(wide(joined(cells)["disagreement"], "share")).isna().all(axis=None)
    (said,) = answer(joined(cells), 10)
    assert "undefined is due to format and wording" in said.sentence


def test_a_low_reliability_is_not_corrected():
    cells, _, _ = simulated(0, {"neuron": 1.0, "prompt": 12.0}, operators="+", variants=0, neurons=400)
    row = tables_of(cells)[1].loc["+", "s+c"]
    assert row["reliability_first"] < 0.3
    assert row[["corrected", "low", "high"]].isna().all()
    (said,) = answer(joined(cells), 10)
    assert "corrected for reliability it is undefined, because the reliability is below 0.3" in said.sentence


def test_the_draws_of_partners_are_all_used():
    cells, _, _ = simulated(9, {"neuron": 1.0, "draw": 3.0}, operators="+", variants=0, draws=12, neurons=400)
    one = {cell: effects_of(e.effects[LAYER][:1]) for cell, e in cells.items()}
    r = [tables_of(some)[1].loc[("+", ALL), "pearson"] for some in (cells, one)]
    assert r == pytest.approx([1 / (1 + 9 / 12), 1 / (1 + 9)], abs=0.06)


def test_one_operator_has_no_operators_component():
    found = tables_of(simulated(0, operators="+")[0])[0].loc[ALL, "value"]
    assert found[["neuron", "operator", "template_common"]].isna().all()
    assert found[["template", "prompt"]].notna().all()


def test_one_format_is_refused():
    cells, _, _ = simulated(0, formats="s")
    with pytest.raises(UserError, match="has the effects of one format"):
        disagreement_tables(cells, {}, 2, 0)


def test_the_tables_are_written_and_the_answer_follows_them(tmp_path):
    cells, variants, _ = simulated(3)
    tables = joined(cells, variants)
    for (name, table), schema in zip(tables.items(), (DISAGREEMENT, FORMAT_CORRELATION), strict=True):
        write_table(table, tmp_path / f"{name}.parquet", schema, {})
        assert len(read_table(tmp_path / f"{name}.parquet", schema)) == len(table)
    mean = tables_of(cells, variants, 50)[0].loc[ALL]
    (said,) = answer(tables, 10)
    for name in ("template", "format", "wording"):
        value, low, high = (f"{mean.loc[name, column]:.0%}" for column in ("share", "share_low", "share_high"))
        assert (
            f"{value} [{low}, {high}] is due to" in said.sentence or f"{value} [{low}, {high}] to" in said.sentence
        )
    assert "Do formats differ beyond noise? Yes." in said.sentence
    assert "Do formats differ beyond wording? Yes." in said.sentence
    assert said.table["operator"].tolist() == ["+", "-", ALL]


def test_bars_end_at_one_and_negative_parts_are_not_drawn():
    columns = ["template", "format", "wording", "draw", "partner", "prompt", "total"]
    rows = [(0.6, 0.5, 0.1, -0.1, 0.2, 0.3, 1.0), (-0.2, np.nan, np.nan, 0.3, 0.3, 0.6, 1.0)]
    drawn = parts_of(pd.DataFrame(rows, columns=columns))
    assert drawn.sum(axis=1).tolist() == pytest.approx([1, 1])
    assert drawn.iloc[0].tolist() == pytest.approx([0.5, 0, 0.1, 0.1, 0.3])
    assert drawn.iloc[1].tolist() == pytest.approx([0, 0, 0, 0.5, 0.5])
