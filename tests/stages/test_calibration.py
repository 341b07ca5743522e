"""What a Jaccard means: models whose shared part is known, and the formula that estimates it."""

import numpy as np
import pandas as pd
import pytest
import torch
from hugging_face import reading

from form_invariance.cli import main
from form_invariance.model.files import load_tokenizer
from form_invariance.problems.prompts import render
from form_invariance.stages.calibration.answer import answer
from form_invariance.stages.calibration.compute import measured, overlap_of
from form_invariance.stages.calibration.construction import PLANTED, SIZES, STRATUM, carriers, write_model
from form_invariance.stages.calibration.estimate import Overlap, estimate, jaccard_of, reliability_of, shared_part
from form_invariance.stages.calibration.figure import calibration
from form_invariance.stages.calibration.pipeline import KS, overlaps
from form_invariance.stages.calibration.table import CALIBRATION, EARLY, LATE, coverage
from form_invariance.stages.planted.construction import LATE as LATE_LAYERS
from form_invariance.stages.planted.construction import TEMPLATES, planted_neurons
from form_invariance.stages.planted.pipeline import start
from form_invariance.stages.questions import SERVES
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.files import write_table

FRESH = 300
"""First seed of models that nothing was tuned on."""


@pytest.fixture(scope="module")
def tables():
    """The calibration table's rows of three models: half is shared; all, with early and with late failures."""
    return {one: measured(*one, FRESH) for one in ((0.5, EARLY), (1.0, EARLY), (1.0, LATE))}


@pytest.mark.parametrize("share", [0, 0.25, 0.5, 0.75, 1])
def test_the_formats_share_the_part_that_is_asked_for_at_every_size(share):
    found = carriers(share, seed=7)
    for layer in LATE_LAYERS:
        own = [found[name, layer] for name in TEMPLATES]
        assert all(len(set(one)) == len(SIZES) for one in own)
        common = set.intersection(*map(set, own))
        assert len(set.union(*map(set, own))) == len(common) + len(TEMPLATES) * (len(SIZES) - len(common))
        for start_of in range(0, len(SIZES), STRATUM):
            stratum = own[0][start_of : start_of + STRATUM]
            assert len(set(stratum) & common) == share * STRATUM
            # A shared neuron has the same size in every format.
            for other in own[1:]:
                at = np.isin(stratum, list(common))
                assert (other[start_of : start_of + STRATUM][at] == stratum[at]).all()


@pytest.mark.parametrize("share", [0, 0.25, 1])
def test_planted_neurons_of_a_share(share):
    planted = planted_neurons(share, 3, planted=8, width=64)
    for layer in LATE_LAYERS:
        own = [set(planted[name, layer]) for name in TEMPLATES]
        assert len(set.intersection(*own)) == 8 * share
        assert len(own[0] & own[1]) == len(own[1] & own[2]) == 8 * share


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_planted_neurons_carry_the_answer_of_their_format_in_hugging_face(tmp_path, name):
    """Planted neurons of the format switched off: the answer is gone. All others of late layers: it stays."""
    from transformers import AutoModelForCausalLM

    write_model(tmp_path / "model", 0.5, seed=FRESH)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = load_tokenizer(tmp_path / "model")
    pairs = [(a, b) for a, b in np.random.default_rng(0).integers(6, 61, (60, 2)).tolist() if a + b <= 96]
    tokens = torch.from_numpy(tokenizer.encode_batch([render(TEMPLATES[name], a, b) for a, b in pairs]))
    answers = torch.tensor(tokenizer.number_tokens([a + b for a, b in pairs]))
    found = carriers(0.5, FRESH)

    def correct(off):
        changes = []
        for layer in LATE_LAYERS:
            chosen = torch.tensor(off(layer), dtype=torch.int64)
            silence = lambda post, chosen=chosen: post.index_fill(-1, chosen, 0.0)  # noqa: E731
            changes.append((model.model.layers[layer].mlp.down_proj, silence))
        with torch.no_grad(), reading(*changes):
            predicted = model(tokens).logits[:, -1].argmax(-1)
        return (predicted == answers).double().mean().item()

    own = {layer: found[name, layer][:PLANTED].tolist() for layer in LATE_LAYERS}
    assert correct(lambda layer: []) == 1
    assert correct(lambda layer: own[layer]) == 0
    others = {layer: np.setdiff1d(np.arange(256), own[layer]).tolist() for layer in LATE_LAYERS}
    assert correct(lambda layer: others[layer]) == 1
    elsewhere = {
        layer: sorted({*np.concatenate([found[other, layer][:PLANTED] for other in TEMPLATES])} - {*own[layer]})
        for layer in LATE_LAYERS
    }
    assert correct(lambda layer: elsewhere[layer]) == 1
    # Every single planted neuron counts: without it the sum is off by its share.
    for layer in LATE_LAYERS:
        for neuron in own[layer]:
            assert correct(lambda at, layer=layer, neuron=neuron: [neuron] if at == layer else []) < 1


@pytest.mark.parametrize("formats", [2, 3, 4])
@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_the_formula_on_sets_drawn_with_a_known_overlap(formats, share):
    size, p, rng = 20_000, 0.8, np.random.default_rng(0)
    fresh = iter(range(10**9))
    common = [next(fresh) for _ in range(round(share * size))]
    own = [[*common, *(next(fresh) for _ in range(size - len(common)))] for _ in range(formats)]

    def noisy(members):
        kept = [one for one in members if rng.random() < p]
        return {*kept, *(next(fresh) for _ in range(size - len(kept)))}

    def jaccard(sets):
        return len(set.intersection(*sets)) / len(set.union(*sets))

    assert shared_part(jaccard([set(one) for one in own]), formats) == pytest.approx(share, abs=1e-12)
    assert jaccard_of(share, formats) == pytest.approx(jaccard([set(one) for one in own]), abs=1e-12)
    within = jaccard([noisy(own[0]) for _ in range(formats)])
    reliability = reliability_of(within, formats)
    assert reliability == pytest.approx(p, abs=0.01)
    across = jaccard([noisy(one) for one in own])
    assert shared_part(across, formats, reliability) == pytest.approx(share, abs=0.02)
    if share == 0.3:
        # Without the correction it would be far too low.
        assert shared_part(across, formats) < share - 0.03


def test_the_estimate_is_clipped_undefined_and_exact_where_it_must_be():
    perfect = (1.0, 1.0, 1.0)
    half = jaccard_of(0.5, 3)
    exact = estimate(Overlap(3, (half, half, half), 0.0, half, perfect))
    assert exact == pytest.approx((0.5, 0.5, 0.5))
    assert estimate(Overlap(3, (0.0, 0.0, 0.0), 0.0, 0.0, perfect)) == (0, 0, 0)
    assert estimate(Overlap(3, (0.6, 0.5, 0.7), 0.0, 0.5, (0.4, 0.3, 0.5)))[2] == 1
    for within in (0.0, 0.1, float("nan")):
        assert np.isnan(estimate(Overlap(3, (0.2, 0.1, 0.3), 0.1, 0.1, (within, within, within)))).all()
    assert np.isnan(estimate(Overlap(3, (float("nan"),) * 3, 0.1, 0.1, (0.5, 0.4, 0.6)))).all()


def test_a_wider_jaccard_or_ceiling_gives_a_wider_interval():
    def width(jaccard, within):
        _, low, high = estimate(Overlap(3, jaccard, 0.0, 0.15, within))
        return high - low

    narrow = width((0.2, 0.18, 0.22), (0.5, 0.48, 0.52))
    assert width((0.2, 0.15, 0.25), (0.5, 0.48, 0.52)) > narrow > 0
    assert width((0.2, 0.18, 0.22), (0.5, 0.40, 0.60)) > narrow


@pytest.mark.nightly
@pytest.mark.slow
def test_the_intervals_cover_the_truth_on_fresh_seeds(tmp_path):
    covered = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        for seed in (FRESH, FRESH + 1):
            write_model(tmp_path / f"{share}-{seed}", share, seed)
            _, overlap, reliability = overlaps(start(tmp_path / f"{share}-{seed}"), seed)
            for k in KS[:2]:
                value, low, high = estimate(overlap_of(overlap, reliability, k))
                assert value == pytest.approx(share, abs=0.2)
                covered.append(low <= share <= high)
    assert np.mean(covered) >= 0.9


@pytest.mark.slow
def test_transfer_corrects_failures_before_the_shared_neurons_and_none_that_arise_beside_them(tables):
    early, late = (tables[1.0, where].set_index(["k", "measure"]) for where in (EARLY, LATE))
    assert early.loc[(PLANTED, "transfer"), "low"] > 0.2
    assert abs(late.loc[(PLANTED, "transfer"), "value"]) < 0.02
    for k in KS:
        # As many neurons are shared in both.
        jaccards = early.loc[(k, "jaccard"), "value"], late.loc[(k, "jaccard"), "value"]
        assert jaccards[0] == pytest.approx(jaccards[1], abs=0.1)


@pytest.mark.slow
def test_effects_grow_with_the_shared_part(tables):
    half, whole = (tables[share, EARLY].set_index(["k", "measure"])["value"] for share in (0.5, 1.0))
    for measure in ("keep_only_faithfulness", "knockout_faithfulness", "transfer", "jaccard", "shared_part"):
        assert whole[PLANTED, measure] > half[PLANTED, measure] + 0.1


@pytest.mark.slow
def test_exchange_tells_a_half_from_the_whole(tables):
    half, whole = (tables[share, EARLY].set_index(["k", "measure"]) for share in (0.5, 1.0))
    lost, kept = "exchange_probability", "exchange_probability_kept"
    assert half.loc[(PLANTED, lost), "high"] < SERVES < whole.loc[(PLANTED, lost), "low"]
    assert half.loc[(PLANTED, kept), "high"] < SERVES < whole.loc[(PLANTED, kept), "low"]


@pytest.mark.slow
def test_the_table_can_be_written_and_drawn_and_says_what_is_covered(tables, tmp_path):
    table = pd.concat(tables.values(), ignore_index=True)
    write_table(table, tmp_path / "table.parquet", CALIBRATION, {"seed": FRESH})
    given = ["--tables", f"calibration={tmp_path / 'table.parquet'}", "--title", "m", "--k", "10"]
    assert main(["figure", "calibration", "calibration", *given, "--output", str(tmp_path / "f.svg")]) == 0
    known = table.dropna(subset=["covered"])
    inside = (known["low"] <= known["truth"]) & (known["truth"] <= known["high"])
    assert (known["covered"] == inside).all()
    assert set(known["measure"]) == {"jaccard", "uncorrected", "shared_part", "correlation"}
    drawn = calibration({"calibration": table}, "m", 10)
    points = sum(len(line.get_xdata()) for line in drawn.axes[0].get_lines()[1:])
    assert points == 2 * len(KS) * 2


def rows(operator, jaccard, within):
    overlap = {"formats": "s+c+w", "operator": operator, "k": 100, "layer": EVERY_LAYER, "used": True}
    overlap |= {"jaccard": jaccard, "low": jaccard - 0.05, "high": jaccard + 0.05, "chance": 0.0}
    parts = [("s", "parts", within), ("c", "parts", within), ("s+c+w", "across_parts", jaccard / 2)]
    again = pd.DataFrame(parts, columns=["format", "kind", "jaccard"]).assign(operator=operator, k=100)
    return pd.DataFrame([overlap]), again.assign(low=again["jaccard"] - 0.02, high=again["jaccard"] + 0.02)


def test_the_answer_reads_the_jaccard_as_a_shared_part():
    overlap, reliability = (pd.concat(both) for both in zip(rows("+", 0.4, 0.5), rows("-", 0.2, 0.5), strict=True))
    covered = pd.DataFrame(
        {"measure": ["shared_part", "shared_part", "uncorrected"], "covered": [1, 0, 0], "k": 8}
    )
    tables = {"overlap": overlap, "reliability": reliability, "calibration": covered}
    (told,) = answer(tables, 100)
    p = reliability_of(0.5, 3)
    expected = [shared_part(one / 2, 3, p) for one in (0.4, 0.2)]
    assert told.table["shared part"].tolist() == pytest.approx(expected)
    assert (
        f"A Jaccard of 0.30 at k = 100 corresponds to a shared part of {np.mean(expected):.0%} [" in told.sentence
    )
    assert "contains it in 50% of the cases" in told.sentence
    assert coverage(covered, 8) == 0.5
    none = {**tables, "reliability": reliability.assign(jaccard=0.0, low=0.0, high=0.0)}
    assert answer(none, 100)[0].sentence.startswith("The Jaccard at k = 100 cannot be read")
