"""Activation maps against TransformerLens hooks, KV maps against a direct patch, and the cell's table."""

import dataclasses

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from schema_checks import check_columns
from settings import complete

from form_invariance.cli import main
from form_invariance.model import decoder, prefixes
from form_invariance.model import loading as models
from form_invariance.model.decoder import Norm
from form_invariance.model.files import load_tokenizer
from form_invariance.problems.prompts import render
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.heuristics import activations, map_files, published, strict
from form_invariance.stages.heuristics import null as nulls
from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.classes import members_of
from form_invariance.stages.heuristics.labels import label_maps, shuffled
from form_invariance.stages.heuristics.names import family
from form_invariance.stages.heuristics.null import make_null
from form_invariance.stages.heuristics.pairs import Grid, make_grid
from form_invariance.stages.heuristics.rules import make_rules
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.tables.files import read_table, read_tensors, write_table, write_tensors

NEURONS = {1: np.array([3, 60]), 3: np.array([0, 11, 79])}


@pytest.mark.parametrize("format_name", ["symbolic", "word"])
def test_operand_maps_equal_hooks(tiny, tiny_folder, templates, format_name):
    model, tokenizer = tiny
    grid = make_grid("a // b", 20)
    template = templates.formats[format_name]["division"][0]
    maps = operand_maps(model, tokenizer, template, grid, NEURONS)
    places = [0, 7, len(grid.a) // 2, len(grid.a) - 1]
    prompts = [render(template, int(grid.a[place]), int(grid.b[place])) for place in places]
    tokens = torch.from_numpy(tokenizer.encode_batch(prompts))
    hooked = oracles.all_neurons(oracles.bridge(tiny_folder), tokens, range(4))[:, :, -1]
    expected = torch.cat([hooked[layer][:, own] for layer, own in NEURONS.items()], dim=1).T
    np.testing.assert_allclose(maps[:, places], expected, atol=2e-5)


def test_answer_logits_are_what_the_neuron_writes_through_the_folded_unembedding(tiny, tiny_folder):
    from transformers import AutoModelForCausalLM

    model, tokenizer = tiny
    grid = make_grid("a + b", 12)
    found = answer_logits(model, tokenizer, grid, NEURONS)
    theirs = AutoModelForCausalLM.from_pretrained(tiny_folder)
    ids = torch.from_numpy(tokenizer.number_tokens(grid.answer))
    rows = []
    for layer, own in NEURONS.items():
        for neuron in own:
            written = theirs.model.layers[layer].mlp.down_proj.weight[:, neuron] * theirs.model.norm.weight
            logits = theirs.lm_head.weight @ written
            rows.append((logits - logits.mean())[ids].detach().numpy())
    np.testing.assert_allclose(found, np.stack(rows), atol=1e-5)


def test_prompts_run_in_batches_and_no_layer_above_the_last(tiny, monkeypatch, capsys):
    model, tokenizer = tiny
    grid = make_grid("a + b", 5)
    template, neurons = "{a}+{b}=", {0: NEURONS[3], 2: NEURONS[1]}
    whole = operand_maps(model, tokenizer, template, grid, neurons)
    assert whole.dtype == np.float32
    assert "25 of 25 prompts" in capsys.readouterr().err
    calls = []

    def run_layers(model, x, **options):
        if "on_neurons" in options:  # the prompts, not the beginnings that they share
            calls.append((*x.shape[:2], options["stop"]))
        return decoder.run_layers(model, x, **options)

    monkeypatch.setattr(prefixes, "run_layers", run_layers)
    tokens = len(tokenizer.encode("1+2=")) + 1
    for allowed, batches in ((1, [1] * 25), (12 * 16 * tokens * model.config.d_mlp, [12, 12, 1])):
        calls.clear()
        monkeypatch.setattr(activations, "_BATCH_BYTES", allowed)
        pieces = operand_maps(model, tokenizer, template, grid, neurons)
        np.testing.assert_allclose(pieces, whole, atol=1e-5)
        # BOS, the first operand and the sign are what some of them share.
        assert calls == [(prompts, tokens - 3, 3) for prompts in batches]
    calls.clear()
    monkeypatch.setattr(activations, "_BATCH_BYTES", 2**40)
    operand_maps(model, tokenizer, template, make_grid("a + b", 25), neurons)
    assert [prompts for prompts, _, _ in calls] == [512, 113]


def test_maps_of_half_precision_and_of_no_neurons(tiny_folder, tiny):
    _, tokenizer = tiny
    model = models.load(tiny_folder, dtype=torch.bfloat16)
    grid = make_grid("a + b", 4)
    assert operand_maps(model, tokenizer, "{a}+{b}=", grid, NEURONS).dtype == np.float32
    exact = dataclasses.replace(
        model,
        unembedding=model.unembedding.float(),
        final_norm=Norm(model.final_norm.weight.float()),
        layers=[dataclasses.replace(layer, down=layer.down.float()) for layer in model.layers],
    )
    found, expected = (answer_logits(one, tokenizer, grid, NEURONS) for one in (model, exact))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for empty in (operand_maps(model, tokenizer, "{a}+{b}=", grid, {}), answer_logits(model, tokenizer, grid, {})):
        assert empty.shape == (0, 16)
        assert empty.dtype == np.float32


@pytest.mark.parametrize("family", ["gpt-neox", "gemma2"])
def test_answer_logits_of_models_with_other_norms(family_folders, family):
    """LayerNorm takes the mean away; Gemma 2 weighs what the neurons write."""
    from transformers import AutoModelForCausalLM

    folder = family_folders[family]
    theirs, tokenizer = AutoModelForCausalLM.from_pretrained(folder), load_tokenizer(folder)
    grid = make_grid("a + b", 6)
    ids = torch.from_numpy(tokenizer.number_tokens(grid.answer))
    rows = []
    for layer, own in NEURONS.items():
        for neuron in own:
            if family == "gpt-neox":
                written = theirs.gpt_neox.layers[layer].mlp.dense_4h_to_h.weight[:, neuron]
                normed = (written - written.mean()) * theirs.gpt_neox.final_layer_norm.weight
                logits = theirs.get_output_embeddings().weight @ normed
            else:
                block = theirs.model.layers[layer]
                written = block.mlp.down_proj.weight[:, neuron] * (1 + block.post_feedforward_layernorm.weight)
                logits = theirs.lm_head.weight @ (written * (1 + theirs.model.norm.weight))
            rows.append((logits - logits.mean())[ids].detach().numpy())
    found = answer_logits(models.load(folder), tokenizer, grid, NEURONS)
    np.testing.assert_allclose(found, np.stack(rows), atol=1e-5)


@pytest.mark.parametrize("expression", ["a + b", "a - b", "a * b", "a // b", "max(a, b)"])
def test_members_by_name_are_the_members_of_every_class(expression):
    grid = make_grid(expression, 40)
    for one in make_rules(grid).classes:
        np.testing.assert_array_equal(members_of(one.name, grid), one.members, one.name)
    several = members_of("result_multi_value_2=[4, 9]", grid)
    np.testing.assert_array_equal(several, np.isin(grid.answer, (4, 9)))


def test_the_table_of_a_cell_names_the_right_neurons_and_shuffling_unlabels_them():
    grid = make_grid("a + b", 60)
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(5, len(grid.a))).astype(np.float32)
    maps[3] += 8 * (grid.a % 7 == 2)
    maps[1] -= 8 * ((grid.b >= 30) & (grid.b < 60))
    table = label_maps(maps, np.ones_like(maps), grid, NEURONS, 0.6, make_null(grid, maps=(200, 400)), 0, "x")
    labels = table[table["label"] & (table["mode"] == "strict")]
    observed = labels[labels["activations"] == "observed"]
    found = {(row.layer, row.neuron, row.family) for row in observed.itertuples()}
    assert found == {(3, 11, "operand modulo"), (1, 60, "operand range")}
    assert labels[labels["activations"] == "shuffled"].empty
    rows = table[table["heuristic"] == "op1_2mod7"]
    np.testing.assert_allclose(rows["base_rate"], (grid.a % 7 == 2).mean())
    np.testing.assert_allclose(rows["lift"], rows["score"] / rows["base_rate"])
    mixed = shuffled(maps, 0, "x")
    np.testing.assert_array_equal(np.sort(mixed, axis=1), np.sort(maps, axis=1))
    assert (mixed != maps).mean() > 0.9


def sums_up_to_999():
    """Some pairs, a hundred or more of them with the answer 999, which the published grid leaves out."""
    a, b = np.random.default_rng(3).integers(300, 700, size=(2, 900))
    b[:100] = 999 - a[:100]
    keep = a + b <= 999
    return Grid(a[keep], b[keep], (a + b)[keep], "addition", 700)


@pytest.mark.parametrize("grid", [sums_up_to_999(), make_grid("a + b", 40)], ids=["999", "small"])
def test_the_table_of_a_cell_is_both_modes_scores_of_observed_and_of_shuffled_maps(grid):
    rng = np.random.default_rng(3)
    a, b, answer = grid.a, grid.b, grid.answer
    maps = rng.normal(size=(5, len(a))).astype(np.float32)
    maps[0] += 6 * (a % 5 == 1)
    # One pattern at both ends, of which the higher score stands.
    maps[2] += 6 * ((b % 10 == 4) & (a < 20)) - 6 * ((b == 14) & (a >= 20))
    logits = rng.normal(size=maps.shape).astype(np.float32)
    upper = (answer >= answer.max() - 30) & (answer < answer.max() - 10)
    logits[4] = np.sign(maps[4]) * (1 + 6 * upper)
    places = [(1, 3), (1, 60), (3, 0), (3, 11), (3, 79)]
    null = make_null(grid, maps=(200, 400))
    table = label_maps(maps, logits, grid, NEURONS, 0.6, null, 7, "x")
    check_columns(table, HEURISTICS)
    order = ["mode", "activations", "layer", "neuron", "heuristic"]
    pd.testing.assert_frame_equal(table, table.sort_values(order, ignore_index=True))
    below = grid.answer < 999
    short = Grid(a[below], b[below], grid.answer[below], "addition", grid.max_operand)
    for activations_name, k_maps in {"observed": maps, "shuffled": shuffled(maps, 7, "x")}.items():
        rows = table[table["activations"] == activations_name]
        kv_maps = k_maps * logits
        # Both modes' own scores, of observed maps from half the threshold on, of shuffled ones the labels alone.
        old = published.score(k_maps[:, below], kv_maps[:, below], short)
        old = old.groupby(["neuron", "heuristic"], as_index=False)["score"].max()
        new = strict.score(k_maps, kv_maps, grid, 0.6, null=null)
        labelled = old["score"] >= 0.6
        for mode, scores, label in (("reference", old, labelled), ("strict", new, new["label"])):
            chosen = scores[scores["score"] >= 0.3] if activations_name == "observed" else scores[label]
            expected = {(*places[row.neuron], row.heuristic): row for row in chosen.itertuples()}
            got = rows[rows["mode"] == mode]
            keys = list(zip(got["layer"], got["neuron"], got["heuristic"], strict=True))
            assert sorted(keys) == sorted(expected)
            for key, row in zip(keys, got.itertuples(), strict=True):
                assert row.score == expected[key].score
                assert row.family == family(row.heuristic)
                if mode == "strict":
                    own = expected[key]
                    assert (row.label, row.p_value) == (own.label, own.p_value)
                    assert (row.base_rate, row.lift) == (own.base_rate, own.lift)
                else:
                    assert row.label == (row.score >= 0.6)
                    assert np.isnan(row.p_value)
                    assert row.base_rate == members_of(row.heuristic, short).mean()
                    assert row.lift == row.score / row.base_rate
    assert not np.array_equal(shuffled(maps, 7, "x"), shuffled(maps, 7, "y"))
    assert not np.array_equal(shuffled(maps, 7, "x"), shuffled(maps, 8, "x"))


def test_the_table_of_no_neurons_is_empty():
    grid = make_grid("a + b", 4)
    table = label_maps(np.empty((0, 16)), np.empty((0, 16)), grid, {}, 0.6, None, 0, "x")
    assert len(table) == 0
    assert list(table.columns) == list(HEURISTICS.columns)
    assert table[["layer", "neuron", "label"]].dtypes.astype(str).tolist() == ["int64", "int64", "bool"]


def test_label_and_agreement_commands(tiny_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nulls, "SCALE_MAPS", 150)
    monkeypatch.setattr(nulls, "MAPS", 400)
    null = tmp_path / "null.safetensors"
    assert (
        main(
            complete(["heuristics", "null", "--expression", "a + b", "--max-operand", "20", "--output", str(null)])
        )
        == 0
    )
    circuit = pd.DataFrame({"k": [20, 20, 40], "layer": [2, 3, 3], "neuron": [5, 7, 9]})
    write_table(circuit, tmp_path / "circuit.parquet", CIRCUIT, {})
    for name, template in {"s": "{a}+{b}=", "c": "a = {a}\nb = {b}\nprint(a + b)  # "}.items():
        chosen = [
            "--model",
            str(tiny_folder),
            "--operator",
            "addition",
            "--expression",
            "a + b",
            "--k",
            "20",
            "--null",
            str(null),
        ]
        files = ["--circuit", str(tmp_path / "circuit.parquet"), "--output", str(tmp_path / f"{name}.parquet")]
        files += ["--maps-output", str(tmp_path / f"{name}.safetensors")]
        assert (
            main(complete(["heuristics", "label", *chosen, *files, "--template", template, "--max-operand", "20"]))
            == 0
        )
        table = read_table(tmp_path / f"{name}.parquet", HEURISTICS)
        assert set(zip(table["layer"], table["neuron"], strict=True)) <= {(2, 5), (3, 7)}
    inputs = ["--heuristics", f"s={tmp_path / 's.parquet'}", f"c={tmp_path / 'c.parquet'}", "--k", "20"]
    files = ["--circuit", str(tmp_path / "circuit.parquet"), "--output", str(tmp_path / "agreement.parquet")]
    extra = ["--labelled-output", str(tmp_path / "labelled.parquet"), "--permutations", "50"]
    assert main(complete(["agreement", "--operator", "addition", *inputs, *files, *extra])) == 0
    labelled = pd.read_parquet(tmp_path / "labelled.parquet")
    assert labelled.groupby(["mode", "activations"])["neurons"].sum().eq(2).all()
    empty = [
        "--k",
        "1000",
        "--circuit",
        str(tmp_path / "circuit.parquet"),
        "--output",
        str(tmp_path / "none.parquet"),
        "--maps-output",
        str(tmp_path / "none.safetensors"),
    ]
    chosen = ["--model", str(tiny_folder), "--operator", "addition", "--expression", "a + b", "--null", str(null)]
    assert (
        main(complete(["heuristics", "label", *chosen, *empty, "--template", "{a}+{b}=", "--max-operand", "20"]))
        == 0
    )
    assert read_table(tmp_path / "none.parquet", HEURISTICS).empty
    other = ["heuristics", "label", *chosen, *empty, "--template", "{a}+{b}=", "--max-operand", "25"]
    assert main(complete(other)) == 2
    assert "the random maps are of max_operand 20, not 25" in capsys.readouterr().err
    assert map_files.from_arrays(read_tensors(tmp_path / "none.safetensors", map_files.KIND)[0]).maps.shape[0] == 0


def test_maps_come_back_from_their_file(tmp_path):
    grid = make_grid("a // b", 30)
    rng = np.random.default_rng(1)
    maps = rng.normal(size=(3, len(grid.a))).astype(np.float32) * np.array([[1], [40], [0]], dtype=np.float32)
    by_answer = rng.normal(size=(3, grid.answer.max() + 1)).astype(np.float32)
    logits = by_answer[:, grid.answer]
    tensors = map_files.to_arrays(maps, logits, grid, {1: np.array([4, 9]), 3: np.array([2])})
    types = {"a": "int64", "b": "int64", "answer": "int64", "answers": "int64", "neurons": "int64"}
    types |= {"low": "float32", "step": "float32", "logits": "float32", "codes": "uint8"}
    assert {name: str(values.dtype) for name, values in tensors.items()} == types
    assert tensors["codes"].max(1).tolist() == [255, 255, 0]
    assert tensors["step"][2] == 1, "of a map of one value"
    write_tensors(tensors, tmp_path / "maps.safetensors", map_files.KIND, {})
    found = map_files.from_arrays(read_tensors(tmp_path / "maps.safetensors", map_files.KIND)[0])
    assert found.neurons.to_dict("list") == {"layer": [1, 1, 3], "neuron": [4, 9, 2]}
    assert found.maps.dtype == found.logits.dtype == np.float32
    np.testing.assert_array_equal(found.logits, logits)
    np.testing.assert_array_equal(np.stack([found.a, found.b, found.answer]), [grid.a, grid.b, grid.answer])
    nothing = map_files.to_arrays(maps[:0], logits[:0], grid, {})
    assert {name: str(values.dtype) for name, values in nothing.items()} == types
    assert nothing["neurons"].shape == (0, 2)
    half_a_step = (maps.max(1) - maps.min(1)) / map_files.LEVELS / 2
    assert (np.abs(found.maps - maps).max(1) <= half_a_step * 1.01 + 1e-7).all()
