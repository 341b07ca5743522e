"""Activation maps against TransformerLens hooks, KV maps against a direct patch, and the cell's table."""

import numpy as np
import pandas as pd
import pytest
import torch

import oracles
from form_invariance.cli import main
from form_invariance.heuristics import map_files
from form_invariance.heuristics.activations import answer_logits, operand_maps
from form_invariance.heuristics.classes import members_of
from form_invariance.heuristics.labels import label_cell, shuffled
from form_invariance.heuristics.pairs import make_grid
from form_invariance.heuristics.strict import make_tests
from form_invariance.prompts import render
from form_invariance.schemas import CIRCUIT, HEURISTICS
from form_invariance.tables_io import read_table, read_tensors, write_table, write_tensors

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


@pytest.mark.parametrize("expression", ["a + b", "a - b", "a * b", "a // b", "max(a, b)"])
def test_members_by_name_are_the_members_of_every_class(expression):
    grid = make_grid(expression, 40)
    for one in make_tests(grid).classes:
        np.testing.assert_array_equal(members_of(one.name, grid), one.members, one.name)
    several = members_of("result_multi_value_2=[4, 9]", grid)
    np.testing.assert_array_equal(several, np.isin(grid.answer, (4, 9)))


def test_the_table_of_a_cell_names_the_right_neurons_and_shuffling_unlabels_them():
    grid = make_grid("a + b", 60)
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(5, len(grid.a))).astype(np.float32)
    maps[3] += 8 * (grid.a % 7 == 2)
    maps[1] -= 8 * ((grid.b >= 30) & (grid.b < 60))
    table = label_cell(maps, np.ones_like(maps), grid, NEURONS, 0.6, 0, "x")
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


def test_classify_and_agreement_commands(tiny_folder, tmp_path):
    circuit = pd.DataFrame({"k": [20, 20, 40], "layer": [2, 3, 3], "neuron": [5, 7, 9]})
    write_table(circuit, tmp_path / "circuit.parquet", CIRCUIT, {})
    for name, template in {"s": "{a}+{b}=", "c": "a = {a}\nb = {b}\nprint(a + b)  # "}.items():
        chosen = ["--model", str(tiny_folder), "--operator", "addition", "--expression", "a + b", "--k", "20"]
        files = ["--circuit", str(tmp_path / "circuit.parquet"), "--output", str(tmp_path / f"{name}.parquet")]
        files += ["--maps-output", str(tmp_path / f"{name}.safetensors")]
        assert main(["classify", *chosen, *files, "--template", template, "--max-operand", "20"]) == 0
        table = read_table(tmp_path / f"{name}.parquet", HEURISTICS)
        assert set(zip(table["layer"], table["neuron"], strict=True)) <= {(2, 5), (3, 7)}
    inputs = ["--heuristics", f"s={tmp_path / 's.parquet'}", f"c={tmp_path / 'c.parquet'}", "--k", "20"]
    files = ["--circuit", str(tmp_path / "circuit.parquet"), "--output", str(tmp_path / "agreement.parquet")]
    extra = ["--labelled-output", str(tmp_path / "labelled.parquet"), "--permutations", "50"]
    assert main(["agreement", "--operator", "addition", *inputs, *files, *extra]) == 0
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
    chosen = ["--model", str(tiny_folder), "--operator", "addition", "--expression", "a + b"]
    assert main(["classify", *chosen, *empty, "--template", "{a}+{b}=", "--max-operand", "20"]) == 0
    assert read_table(tmp_path / "none.parquet", HEURISTICS).empty
    assert map_files.from_arrays(read_tensors(tmp_path / "none.safetensors", map_files.KIND)[0]).maps.shape[0] == 0


def test_maps_come_back_from_their_file(tmp_path):
    grid = make_grid("a // b", 30)
    rng = np.random.default_rng(1)
    maps = rng.normal(size=(3, len(grid.a))).astype(np.float32) * np.array([[1], [40], [0]], dtype=np.float32)
    by_answer = rng.normal(size=(3, grid.answer.max() + 1)).astype(np.float32)
    logits = by_answer[:, grid.answer]
    tensors = map_files.to_arrays(maps, logits, grid, {1: np.array([4, 9]), 3: np.array([2])})
    write_tensors(tensors, tmp_path / "maps.safetensors", map_files.KIND, {})
    found = map_files.from_arrays(read_tensors(tmp_path / "maps.safetensors", map_files.KIND)[0])
    assert found.neurons.to_numpy().tolist() == [[1, 4], [1, 9], [3, 2]]
    np.testing.assert_array_equal(found.logits, logits)
    np.testing.assert_array_equal(np.stack([found.a, found.b, found.answer]), [grid.a, grid.b, grid.answer])
    half_a_step = (maps.max(1) - maps.min(1)) / map_files.LEVELS / 2
    assert (np.abs(found.maps - maps).max(1) <= half_a_step * 1.01 + 1e-7).all()
