"""Circuits that were built by hand: the stages must find them, and say so where nothing is shared."""

import numpy as np
import pytest
from constructed_run import ConstructedRun
from planted_models import LATE, PLANTED, TEMPLATES, planted_neurons, write_model

from form_invariance.experiment.contrasts import overall
from form_invariance.model import indirect_effect
from form_invariance.stages.interventions.answer import answer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[True, False], ids=["shared", "separate"])
def shared(request):
    return request.param


@pytest.fixture(scope="module")
def folder(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted") / "model"
    write_model(folder, shared, seed=0)
    return folder


@pytest.fixture(scope="module")
def found(folder):
    return ConstructedRun(folder, PLANTED, seed=0)


def test_the_model_adds_but_for_what_it_was_made_to_misread(found):
    for name, cell in found.cells.items():
        wrong = (cell.census["answer"] > 90) & (name == "word")
        assert (cell.census["predicted"].astype(int) == cell.census["answer"] + 7 * wrong).all()
        assert cell.census["correct"].mean() > 0.8


def test_both_stages_rank_the_planted_neurons_first(found, shared):
    planted = planted_neurons(shared, seed=0)
    for name, cell in found.cells.items():
        for column in ("attribution_rank", "rank"):
            first = cell.ranking[cell.ranking[column] <= PLANTED].groupby("layer")["neuron"].agg(sorted)
            assert first.to_dict() == {layer: planted[name, layer] for layer in LATE}


def test_the_shared_circuit_is_the_planted_one_or_empty(found, shared):
    planted = planted_neurons(shared, seed=0)
    circuit = found.circuit.groupby("layer")["neuron"].agg(sorted).to_dict()
    assert circuit == ({layer: planted["code", layer] for layer in LATE} if shared else {})
    overlap = found.overlap([PLANTED])
    assert (overlap.loc[overlap["formats"] == "+".join(TEMPLATES), "jaccard"] == shared).all()


def test_the_verdict_is_yes_where_a_circuit_is_shared_and_undefined_where_none_is(found, shared):
    table = found.contrasts
    words = overall(table).set_index(["intervention", "metric"])["verdict"].to_dict()
    assert set(words.values()) == ({"yes"} if shared else {"undefined"})
    numbers = table[["first", "second", "difference", "low", "high"]]
    assert (numbers.notna() if shared else numbers.isna()).all(axis=None)
    said = {one.sentence for one in answer({"intervention_contrasts": table}, PLANTED)}
    if shared:
        assert all(sentence.endswith("By probability, the primary metric: yes.") for sentence in said)
    else:
        assert said == {"No neuron is shared in any of the 3 cells, so this is undefined."}


def test_the_circuit_is_sufficient_and_necessary_and_random_neurons_are_not(found, shared):
    for summary, _ in found.interventions.values():
        if not shared:
            # An empty circuit has no values and no controls.
            assert (summary["neurons"] == "circuit").all()
            assert summary[["faithfulness_mean", "accuracy", "probability"]].isna().all(axis=None)
            continue
        for positions in ("all", "last"):
            rows = summary[summary["positions"] == positions]
            means = rows.groupby(["neurons", "intervention"])["faithfulness_mean"].mean()
            assert means["circuit", "keep_only"] == pytest.approx(1, abs=0.02)
            assert abs(means["circuit", "knockout"]) <= 0.05
            assert abs(means["random", "keep_only"]) <= 0.05
            assert means["random", "knockout"] == pytest.approx(1, abs=0.02)


def test_a_donor_repairs_all_that_the_model_misreads(found, shared):
    rates, _ = found.transfer
    moved = rates[rates["pairs"] > 0].set_index("condition")["recovered"]
    expected = 1 if shared else np.nan
    assert moved["matched"].to_numpy() == pytest.approx([expected] * 2, nan_ok=True)
    assert not shared or (moved["random"] < 0.2).all()


def test_a_broken_stage_shows(folder, shared, monkeypatch):
    effect = indirect_effect.indirect_effect
    monkeypatch.setattr(indirect_effect, "indirect_effect", lambda *changes: -effect(*changes))
    planted = planted_neurons(shared, seed=0)
    for name, cell in ConstructedRun(folder, PLANTED, seed=0).cells.items():
        best = cell.ranking[cell.ranking["rank"] <= PLANTED].groupby("layer")["neuron"].agg(set)
        assert not any(best[layer] & {*planted[name, layer]} for layer in LATE)
