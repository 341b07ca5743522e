import os
from functools import cache

import numpy as np
import pytest
from plain_heuristics import credited, plain_strict, strict_classes
from scipy.linalg import sqrtm
from scipy.ndimage import gaussian_filter
from scipy.special import ndtri
from scipy.stats import binomtest, kstest, rankdata

from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.randomness import generator
from form_invariance.stages.heuristics import counts, strict
from form_invariance.stages.heuristics import null as nulls
from form_invariance.stages.heuristics.classes import PairClass
from form_invariance.stages.heuristics.counts import counter
from form_invariance.stages.heuristics.names import EXPRESSIONS, family, of_result
from form_invariance.stages.heuristics.pairs import Grid, make_digit_grid, make_grid
from form_invariance.stages.heuristics.ranking import rank, ranked
from form_invariance.stages.heuristics.rules import make_rules
from form_invariance.stages.heuristics.smoothness import LAGS, autocorrelation, random_maps

pytestmark = pytest.mark.slow

EVERY = {**EXPRESSIONS, "other": "max(a, b)"}
DIGIT_GRID = make_digit_grid(Arithmetic("a + b", OperandRange(10, 60, 10, 99), digit=0), 60)
OPERANDS = int(os.environ.get("NOISE_OPERANDS", "60"))
"""Operands of the grids of noise; the numbers in docs/stages.md are those of 100."""


@cache
def null_of(expression, max_operand, maps=(nulls.SCALE_MAPS, nulls.MAPS)):
    return nulls.make_null(make_grid(expression, max_operand), maps=maps)


def scored(operand, result, grid, null, **options):
    return strict.score(ranked(operand), ranked(result), grid, null, **options)


@pytest.mark.parametrize("operator", EVERY)
def test_maps_of_few_values_have_no_strict_label(operator):
    """No map has a relation to the operands; the first two are constant."""
    grid, rng = make_grid(EVERY[operator], 40), np.random.default_rng(0)
    total = len(grid.a)
    one = 5.0 * (np.arange(total) == total // 3)
    maps = [np.full(total, -0.7), np.where(rng.random(total) < 0.5, 0.0, -0.0), one, -one]
    maps += [rng.integers(2, size=total), rng.random(total) < 0.02, rng.integers(3, size=total) * 1e-42]
    maps += [np.maximum(rng.normal(size=total) - 1.5, 0), np.arange(total) == total - 1]
    maps = np.stack(maps).astype(np.float32)
    written = maps.copy()
    written[0] = grid.answer % 7 == 2  # the value vector alone follows a rule
    table = scored(maps, written, grid, null_of(EVERY[operator], 40, (200, 400)))
    assert not table["label"].any(), table[table["label"]].to_string()
    constant = table[table["neuron"] == 1]
    np.testing.assert_allclose(constant["score"], constant["base_rate"], rtol=1e-12)
    assert (constant["p_value"] == 1).all()


@pytest.mark.nightly
@pytest.mark.parametrize("operator", EXPRESSIONS)
def test_p_of_smooth_noise_is_uniform(operator, capsys):
    """Gaussian fields are cut from a torus: else variance is larger at the edges, where small operands lie."""
    grid, rng = make_grid(EXPRESSIONS[operator], OPERANDS), np.random.default_rng(20)
    noise = rng.normal(size=(500, 2 * grid.max_operand, 2 * grid.max_operand))
    widths = np.geomspace(1, 30, 500) / 2**0.5
    fields = (gaussian_filter(one, width, mode="wrap") for one, width in zip(noise, widths, strict=True))
    maps = np.stack([field[grid.a, grid.b] for field in fields])
    table = scored(maps, maps, grid, null_of(EXPRESSIONS[operator], OPERANDS)).groupby("neuron")
    p, labelled = table["p_value"].min().to_numpy(), int(table["label"].any().sum())
    # p is a multiple of 1 / (1 + maps), so it is spread over its step.
    spread = p - np.random.default_rng(0).random(len(p)) / (1 + nulls.NEIGHBOURS)
    distance, uniform = kstest(spread, "uniform")
    shares = [round(float((p <= level).mean()), 3) for level in (0.01, 0.05, 0.5)]
    with capsys.disabled():
        print(f"\n{operator}: KS {distance:.3f} (p {uniform:.3f}), p <= .01 .05 .5: {shares}, {labelled} labels")
    assert uniform > 0.05
    assert binomtest(labelled, 500, strict.SIGNIFICANCE, alternative="greater").pvalue >= 0.05


def planted_classes(grid):
    """One class of every family that the operator has, chosen so that no other family has nearly the same."""
    a, b, answer = grid.a, grid.b, grid.answer
    small = grid.kind == "multiplication"
    classes = {
        "operand modulo": a % 7 == 3,
        "operand value": a == 38,
        "operand range": (30 <= b) & (b < 40) if not small else (20 <= a) & (a < 25),
        "both modulo": (a % 3 == 1) & (b % 3 == 1),
        "both range": (20 <= a) & (a < 30) & (20 <= b) & (b < 30),
        "result range": (30 <= answer) & (answer < 40) if not small else (100 <= answer) & (answer < 130),
        "result modulo": answer % 7 == 2,
        "result pattern": answer % 100 == 37,
        "result value": answer == 60,
        "identical operands": a == b,
    }
    if grid.kind == "subtraction":
        del classes["result pattern"]  # for answers below 100 it is a value
    if grid.kind == "division":
        del classes["result modulo"], classes["result pattern"]
        classes["result range"] = (10 <= answer) & (answer < 20)
        classes["result value"] = answer == 7
        classes["multi-result"] = np.isin(answer, (2, 3))
    return classes


@pytest.mark.parametrize("operator", EXPRESSIONS)
def test_planted_neurons_get_exactly_their_family(operator):
    grid = make_grid(EXPRESSIONS[operator], 100)
    classes = planted_classes(grid)
    noise = np.random.default_rng(0).normal(size=(len(classes), len(grid.a)))
    maps = (noise + 6 * np.stack([*classes.values()])).astype(np.float32)
    null = null_of(EXPRESSIONS[operator], 100, (200, 500))
    for sign in (1, -1):
        table = scored(sign * maps, maps, grid, null, floor=0.5)
        for neuron, name in enumerate(classes):
            labels = table[table["label"] & (table["neuron"] == neuron)]
            assert {family(one) for one in labels["heuristic"]} == {name}, (name, labels.to_string())


def test_two_families_are_both_labels_at_the_lower_end():
    grid, rng = make_grid("a + b", 40), np.random.default_rng(0)
    maps = -6.0 * ((grid.a % 5 == 2) | ((10 <= grid.b) & (grid.b < 20))) - rng.normal(size=(1, len(grid.a)))
    table = scored(maps, 0 * maps, grid, null_of("a + b", 40, (200, 400)), threshold=0.3)
    assert set(table[table["label"]]["heuristic"]) == {"op1_2mod5", "op2_range_10_20"}


@pytest.mark.parametrize(
    "grid", [make_grid(EVERY[name], 30) for name in EVERY] + [DIGIT_GRID], ids=[*EVERY, "digit"]
)
def test_hits_equal_the_plain_way(grid, monkeypatch):
    """Classes of one number are counted by its values, others by pairs. Some have another size or are empty."""
    by_pair, of_pairs, total = counts._by_pair, [], len(grid.a)
    monkeypatch.setattr(
        counts, "_by_pair", lambda classes, *more: of_pairs.extend(classes) or by_pair(classes, *more)
    )
    classes, rng = make_rules(grid).classes, np.random.default_rng(0)
    classes = classes[:: 1 + len(classes) // 200]
    classes += [PairClass(one.name, one.members, one.size // 2, True) for one in classes[::5]]
    none = grid.a < 0
    classes += [PairClass("op1_value_999", none, 0, True), PairClass("same_operand", none, total + 9, True)]
    hits = counter(classes, grid)
    maps = np.stack([*random_maps(grid, 4, generator(5))]).astype(np.float32)
    maps[:2] = rng.integers(0, 4, total), -1 * (grid.a < 2)
    for values in maps:
        found = hits(rank(values))
        for one, *ends in zip(classes, *found, strict=True):
            size, places = min(one.size, total), np.flatnonzero(one.members).tolist()
            sides = [values, -values if one.both_ends else values]
            expected = [credited(dict(enumerate(side.tolist())), places, size) for side in sides]
            np.testing.assert_allclose(ends, expected, rtol=1e-9, err_msg=one.name)
    assert not {one.name.split("_")[0] for one in of_pairs} & {"op1", "op2", "result"}


@pytest.mark.parametrize(
    ("expression", "max_operand", "count", "neighbours", "local"),
    [("a + b", 9, (12, 15), 8, 4), ("a // b", 12, (20, 25), 12, 6)],
)
def test_the_null_equals_plain_loops(expression, max_operand, count, neighbours, local, monkeypatch):
    monkeypatch.setattr(nulls, "NEIGHBOURS", neighbours)
    monkeypatch.setattr(nulls, "LOCAL", local)
    grid = make_grid(expression, max_operand)
    null = nulls.make_null(grid, seed=4, maps=count)
    known = strict_classes(grid)
    names = [one.name for one in null.rules.classes]
    kinds = np.array([of_result(name) for name in names] + [True])

    def plain_row(operand, result):
        found = plain_strict(grid, known, operand, result)
        sets = [row[2] for name, row in found.items() if "multi" in name] or [0.0]
        return [*(found[name][2] for name in names), *sets]

    def fisher(own):
        return np.arctanh(np.clip(own, -0.999, 0.999))

    def nearest(own, among, count):
        return np.argsort([sum((fisher(one) - fisher(own)) ** 2) for one in among])[:count]

    def drawn(purpose, number):
        maps = list(random_maps(grid, number, generator(4, "smooth-maps", purpose)))
        smooth = np.array([plain_autocorrelation(one, grid) for one in maps])
        return smooth, np.array([plain_row(one, one) for one in maps])

    smooth, rows = drawn("scale", count[0])
    np.testing.assert_allclose(null.scale_evidence, rows, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(null.scale_smoothness, fisher(smooth), atol=1e-4)

    def units(row, own):
        return row / np.maximum(0.5, rows[nearest(own, smooth, local)].mean(0))

    smooth_compared, rows_compared = drawn("compared", count[1])
    values = np.array([units(*one) for one in zip(rows_compared, smooth_compared, strict=True)])
    largest = {kind: values[:, kinds == kind].max(1) for kind in (False, True)}
    np.testing.assert_allclose([null.largest_operand, null.largest_result], [*largest.values()], rtol=1e-4)
    rng = np.random.default_rng(0)
    planted = np.stack([3 * (grid.a < 5), 0.5 * grid.b])
    operand, result = (rng.normal(size=(2, len(grid.a))) + planted).astype(np.float32)
    result[np.isin(grid.answer, (2, 3))] += 20
    table = scored(operand[None], result[None], grid, null).set_index("heuristic")
    own = {False: plain_autocorrelation(operand, grid), True: plain_autocorrelation(result, grid)}
    chance = {}
    for kind in own:
        near = nearest(own[kind], smooth_compared, neighbours)
        more = fisher(smooth_compared[near]) - fisher(own[kind])
        logarithm = np.log(np.maximum(1e-9, largest[kind][near]))
        centred = more - more.mean(0)
        # Ridge regression: the penalty is further observations of 0.
        penalty = np.sqrt(nulls.RIDGE * np.mean(np.sum(centred**2, axis=0))) * np.eye(len(centred.T))
        values = np.concatenate([logarithm - logarithm.mean(), np.zeros(len(penalty))])
        slope = np.linalg.lstsq(np.concatenate([centred, penalty]), values, rcond=None)[0]
        fitted = more @ slope
        chance[kind] = np.exp(logarithm - fitted + min(max(0.0, min(fitted)), max(fitted)))
    row = np.array(plain_row(operand, result))
    in_units = {kind: units(row, own[kind]) for kind in own}
    found_sets = [name for name in table.index if "multi" in name]
    assert len(found_sets) == (grid.kind == "division")
    for i, name in enumerate([*names, *found_sets]):
        larger = np.maximum(*chance.values()) >= in_units[kinds[i]][i] * (1 - 1e-5)
        assert table.loc[name, "p_value"] == pytest.approx((1 + larger.sum()) / (1 + neighbours))


def plain_autocorrelation(values, grid):
    scored = ndtri((rankdata(values) - 0.5) / len(values))
    scored = (scored - scored.mean()) / scored.std()
    at = {(a, b): value for a, b, value in zip(grid.a.tolist(), grid.b.tolist(), scored.tolist(), strict=True)}
    found = []
    for down, right in (*((lag, 0) for lag in LAGS), *((0, lag) for lag in LAGS)):
        products = [own * at[a + down, b + right] for (a, b), own in at.items() if (a + down, b + right) in at]
        side = np.ptp(grid.a if down else grid.b) + 1
        found.append(np.mean(products) if products and 2 * (down + right) < side else 0.0)
    return found


SPARSE = Grid(np.array([0, 1, 5]), np.array([0, 0, 5]), np.array([0, 1, 10]), "addition", 6)
"""One pair of neighbours."""


@pytest.mark.parametrize("grid", [make_grid("a * 60 + b", 25), make_grid("a + b", 2 * LAGS[3]), SPARSE])
def test_smoothness_equals_plain_loops(grid):
    maps = np.stack([0 * grid.a, np.random.default_rng(0).normal(size=len(grid.a)), grid.a // 3]).astype(float)
    found = [autocorrelation(ranking, grid) for ranking in ranked(maps)]
    for row, values in zip(found[1:], maps[1:], strict=True):
        np.testing.assert_allclose(row, plain_autocorrelation(values, grid), atol=1e-5)
    assert found[0].tolist() == [0] * 2 * len(LAGS)


def test_random_maps_are_drawn_as_they_are_described():
    """The oracle draws the same numbers, but multiplies the noise by the root of the covariance."""
    grid = make_grid("a * 60 + b", 15)  # 12 x 15: the answer ends at 999
    shape = np.ptp(grid.a) + 1, np.ptp(grid.b) + 1
    same, rng = generator(3), generator(3)
    kinds = set()
    for found in random_maps(grid, 60, same):
        along, across = rng.choice(np.geomspace(0.3, max(shape), 60), size=2)
        isotropic, white, mixed = rng.random(3)
        if isotropic < 1 / 3:
            across = along
        share = 1 if white < 0.1 else rng.random() if mixed < 0.2 else 0
        kinds.add((bool(isotropic < 1 / 3), 0 if share == 0 else 1 if share == 1 else 0.5))
        roots = []
        for side, length in zip(shape, (along, across), strict=True):
            distance = np.arange(side)[:, None] - np.arange(side)
            roots.append(np.real(sqrtm(np.exp(-0.5 * (distance / length) ** 2))))
        field = roots[0] @ rng.standard_normal(shape, dtype=np.float32) @ roots[1]
        field = (field - field.mean()) / field.std()
        if share:
            field = np.sqrt(1 - share) * field + np.sqrt(share) * rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_allclose(found, field[grid.a - grid.a.min(), grid.b - grid.b.min()], atol=0.02)
    assert len(kinds) == 6
