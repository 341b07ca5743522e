"""Circuits that are known because they were built: the pipeline must find them, and say so where it does not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from form_invariance.cli import main
from form_invariance.drawing import style
from form_invariance.model import indirect_effect
from form_invariance.model.files import load_tokenizer
from form_invariance.stages.contrasts import overall
from form_invariance.stages.interventions.answer import answer
from form_invariance.stages.planted import figure
from form_invariance.stages.planted.construction import LATE, PLANTED, TEMPLATES, planted_neurons, write_model
from form_invariance.stages.planted.pipeline import run_stages
from form_invariance.stages.planted.scores import score
from form_invariance.stages.planted.table import PLANTED as SCHEMA
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.files import read_table

pytestmark = pytest.mark.slow

TOLERANCE = {"first_stage": 0, "ranking": 0, "overlap": 0, "keep_only": 0.02, "knockout": 0.05, "transfer": 0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Both constructions' models and the tables of all stages, as (model, tables) by whether it is shared."""
    found = {}
    for shared in (True, False):
        model = tmp_path_factory.mktemp("planted") / "model"
        write_model(model, shared, seed=0)
        found[shared] = model, run_stages(model, seed=0)
    return found


@pytest.fixture(params=[True, False], ids=["shared", "separate"])
def shared(request):
    return request.param


def circuit_of(found):
    """The shared circuit by layer."""
    return {layer: set(own["neuron"]) for layer, own in found.circuit.groupby("layer")}


def test_formats_share_all_neurons_or_none():
    same, own = planted_neurons(True, seed=3), planted_neurons(False, seed=3)
    for layer in LATE:
        assert len({tuple(same[name, layer]) for name in TEMPLATES}) == 1
        assert len(set().union(*(own[name, layer] for name in TEMPLATES))) == PLANTED * len(TEMPLATES)
    assert planted_neurons(True, seed=4) != same


def test_the_model_adds_but_for_what_it_was_made_to_misread(runs, shared):
    for name in TEMPLATES:
        census = runs[shared][1].census[name]
        wrong = census["answer"].to_numpy() > 90 if name == "word" else np.zeros(len(census), dtype=bool)
        assert (census["predicted"].astype(int) == census["answer"] + 7 * wrong).all()
        assert census["correct"].mean() > 0.8


@pytest.mark.parametrize("name", TEMPLATES)
def test_hugging_face_reads_the_folder_alike(runs, shared, name):
    from transformers import AutoModelForCausalLM

    folder, found = runs[shared]
    census = found.census[name].sample(50, random_state=0)
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        logits = model(torch.from_numpy(load_tokenizer(folder).encode_batch(census["prompt"].tolist()))).logits
    assert logits[:, -1].argmax(-1).tolist() == census["predicted_token"].tolist()


def test_the_pipeline_finds_what_was_built(runs, shared):
    table = score(runs[shared][1], planted_neurons(shared, seed=0), shared)
    assert table.groupby("measure").size().to_dict() == {
        **{"first_stage": 9, "ranking": 9, "overlap": 3, "keep_only": 3, "knockout": 3, "transfer": 2}
    }
    undefined = table["measure"].isin(["keep_only", "knockout", "transfer"]) & (not shared)
    assert (table["expected"].isna() == undefined).all()
    for row in table.itertuples():
        assert row.value == pytest.approx(row.expected, abs=TOLERANCE[row.measure], nan_ok=True), row
        if shared:
            assert abs(row.random - row.expected) > 0.8, row


def test_the_shared_circuit_is_the_planted_one(runs):
    planted = planted_neurons(True, seed=0)
    assert circuit_of(runs[True][1]) == {layer: set(planted["code", layer]) for layer in LATE}


def test_what_is_not_shared_is_not_reported(runs):
    assert circuit_of(runs[False][1]) == {}


def test_the_verdict_is_yes_where_a_circuit_is_shared_and_undefined_where_none_is(runs, shared):
    table = runs[shared][1].contrasts
    assert len(table) == (len(TEMPLATES) + 2) * 2 * 3
    words = overall(table).set_index(["intervention", "metric"])["verdict"].to_dict()
    if shared:
        # One planted neuron costs all answers, and most draws among all neurons contain one.
        assert words.pop(("knockout", "accuracy")) == "undecided"
    assert set(words.values()) == ({"yes"} if shared else {"undefined"})
    assert set(table["verdict"]) <= ({"yes", "undecided"} if shared else {"undefined"})
    every = table[table["format"] == "all"]
    assert (every["cells"] == (len(TEMPLATES) if shared else 0)).all()
    numbers = table[["first", "second", "difference", "low", "high"]]
    assert numbers.notna().to_numpy().all() if shared else numbers.isna().to_numpy().all()
    told = answer({"intervention_contrasts": table}, PLANTED)
    for one in told:
        if shared:
            assert one.sentence.endswith("By probability, the primary metric: yes.")
        else:
            assert one.sentence == "No neuron is shared in any of the 3 cells, so this is undefined."


def test_an_empty_circuit_has_no_values_no_controls_and_no_prompts(runs):
    for summary in runs[False][1].interventions.values():
        assert (summary["neurons"] == "circuit").all()
        assert (summary["n_neurons"] == 0).all()
        measured = ["faithfulness_mean", "mean_low", "faithfulness_ratio", "ratio_high", "normalized_logit"]
        measured += ["accuracy", "accuracy_low", "probability", "probability_high", "match_distance"]
        assert summary[measured].isna().to_numpy().all()
        assert summary[["good", "bad"]].notna().to_numpy().all()


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("positions", ["all", "last"])
def test_the_circuit_is_sufficient_and_necessary(runs, name, positions):
    table = runs[True][1].interventions[name].query("positions == @positions")
    circuit = table[table["neurons"] == "circuit"].set_index("intervention")["faithfulness_mean"]
    assert circuit["keep_only"] == pytest.approx(1, abs=0.02)
    assert abs(circuit["knockout"]) <= 0.05
    random = table[table["neurons"] == "random"].groupby("intervention")["faithfulness_mean"].mean()
    assert abs(random["keep_only"]) <= 0.05
    assert random["knockout"] == pytest.approx(1, abs=0.02)


def test_a_wrecked_ranking_shows(runs):
    tables = runs[True][1]
    ranking = tables.ranking["code"].copy()
    # The best planted neuron of layer 2 goes to the end.
    first = (ranking["layer"] == LATE[0]) & (ranking["rank"] == 1)
    ranking.loc[ranking["layer"] == LATE[0], "rank"] -= 1
    ranking.loc[first, "rank"] = 64
    wrecked = replace(tables, ranking={**tables.ranking, "code": ranking})
    table = score(wrecked, planted_neurons(True, seed=0), True).query("measure == 'ranking'")
    found = table.set_index(["format", "layer"])["value"]
    assert found["code", LATE[0]] == pytest.approx(7 / 8)
    assert found["code", EVERY_LAYER] == pytest.approx(15 / 16)
    assert found[found.index.get_level_values("format") != "code"].eq(1).all()


def test_a_broken_stage_shows(runs, monkeypatch):
    effect = indirect_effect.indirect_effect
    monkeypatch.setattr(indirect_effect, "indirect_effect", lambda *changes: -effect(*changes))
    table = score(run_stages(runs[True][0], seed=0), planted_neurons(True, seed=0), True)
    worst = (table["value"] - table["expected"]).abs().groupby(table["measure"]).max()
    assert worst["first_stage"] == 0
    assert (worst[["ranking", "keep_only", "knockout", "transfer"]] > 0.9).all(), worst


def test_the_command_writes_the_table_of_these_runs_and_its_figure(runs, tmp_path):
    path = tmp_path / "planted.parquet"
    assert main(["planted", "--seed", "0", "--output", str(path)]) == 0
    words = ["--tables", f"planted={path}", "--title", "m", "--k", "10", "--output", str(tmp_path / "planted.svg")]
    assert main(["figure", "planted", "planted", *words]) == 0
    table = read_table(path, SCHEMA)
    parts = [score(runs[shared][1], planted_neurons(shared, seed=0), shared) for shared in (True, False)]
    pd.testing.assert_frame_equal(table, pd.concat(parts, ignore_index=True)[list(table)], check_dtype=False)


def test_the_figure_shows_every_value(runs):
    parts = [score(runs[shared][1], planted_neurons(shared, seed=0), shared) for shared in (True, False)]
    table = pd.concat(parts, ignore_index=True)
    table.loc[0, "value"] = -3.5  # far outside of what is expected
    drawn = figure.planted({"planted": table}, "planted")
    style._settle(drawn)
    low, high = drawn.axes[0].get_xlim()
    assert low < -3.5
    assert high > 1
    lines = [
        line for axes in drawn.axes for line in axes.get_lines() if line.get_marker() in {*style.MARKERS, "*"}
    ]
    points = sum(len(line.get_xdata()) for line in lines)
    assert points == (table["layer"] == EVERY_LAYER).sum()
