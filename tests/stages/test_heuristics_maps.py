import dataclasses

import numpy as np
import oracles
import pandas as pd
import pytest
import torch

from form_invariance.model import loading as models
from form_invariance.model.decoder import Norm
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.templates import render
from form_invariance.randomness import generator
from form_invariance.stages.heuristics import labels, map_files, published, strict
from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.baselines import smooth_noise
from form_invariance.stages.heuristics.classes import members_of
from form_invariance.stages.heuristics.labels import label_maps, shuffled
from form_invariance.stages.heuristics.names import family
from form_invariance.stages.heuristics.null import make_null
from form_invariance.stages.heuristics.pairs import Grid, grid_prompts, make_grid
from form_invariance.stages.heuristics.ranking import ranked
from form_invariance.stages.heuristics.rules import make_rules
from form_invariance.stages.heuristics.table import HEURISTICS, strict_labels
from form_invariance.tables.files import read_tensors, write_tensors

NEURONS = {1: np.array([3, 60]), 3: np.array([0, 11, 79])}
ROWS = pd.DataFrame({"neurons": "shared", "layer": [1, 1, 3, 3, 3], "neuron": [3, 60, 0, 11, 79]})


@pytest.mark.parametrize("format_name", ["symbolic", "word"])
def test_operand_maps_equal_hooks(tiny, tiny_folder, templates, format_name):
    model, tokenizer = tiny
    grid = make_grid("a // b", 20)
    template = templates.formats[format_name]["division"][0]
    maps = operand_maps(model, tokenizer, grid_prompts(grid, tokenizer, template, "")[0], NEURONS)
    assert maps.dtype == np.float32
    places = [0, 7, len(grid.a) // 2, len(grid.a) - 1]
    prompts = [render(template, int(grid.a[place]), int(grid.b[place])) for place in places]
    tokens = torch.from_numpy(tokenizer.encode_batch(prompts))
    hooked = oracles.all_neurons(oracles.bridge(tiny_folder), tokens, range(model.config.n_layers))[:, :, -1]
    expected = torch.cat([hooked[layer][:, own] for layer, own in NEURONS.items()], dim=1).T
    np.testing.assert_allclose(maps[:, places], expected, atol=2e-5)


@pytest.mark.parametrize("family", ["llama", "gpt-neox", "gemma2"])
def test_answer_logits_are_what_the_neuron_writes_through_the_folded_unembedding(family_folders, family):
    """LayerNorm takes the mean away; Gemma 2 weighs what the neurons write."""
    from transformers import AutoModelForCausalLM

    folder = family_folders[family]
    theirs, tokenizer = AutoModelForCausalLM.from_pretrained(folder), load_tokenizer(folder)
    grid = make_grid("a + b", 6)
    ids, rows = tokenizer.number_tokens(grid.answer), []
    for layer, own in NEURONS.items():
        block = theirs.base_model.layers[layer]
        if family == "gpt-neox":
            written = block.mlp.dense_4h_to_h.weight[:, own].T
            normed = (written - written.mean(1, keepdim=True)) * theirs.gpt_neox.final_layer_norm.weight
        elif family == "gemma2":
            written = block.mlp.down_proj.weight[:, own].T * (1 + block.post_feedforward_layernorm.weight)
            normed = written * (1 + theirs.model.norm.weight)
        else:
            normed = block.mlp.down_proj.weight[:, own].T * theirs.model.norm.weight
        logits = theirs.get_output_embeddings()(normed)
        rows.append((logits - logits.mean(1, keepdim=True))[:, ids].detach())
    np.testing.assert_allclose(answer_logits(models.load(folder), ids, NEURONS), torch.cat(rows), atol=1e-5)


def test_answer_logits_of_half_precision(tiny_folder, tiny):
    model = models.load(tiny_folder, dtype=torch.bfloat16)
    answers = tiny[1].number_tokens(range(16))
    exact = dataclasses.replace(
        model,
        unembedding=model.unembedding.float(),
        final_norm=Norm(model.final_norm.weight.float()),
        layers=[dataclasses.replace(layer, down=layer.down.float()) for layer in model.layers],
    )
    found, expected = (answer_logits(one, answers, NEURONS) for one in (model, exact))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("expression", ["a + b", "a - b", "a * b", "a // b", "max(a, b)"])
def test_members_by_name_are_the_members_of_every_class(expression):
    grid = make_grid(expression, 40)
    for one in make_rules(grid).classes:
        np.testing.assert_array_equal(members_of(one.name, grid), one.members, one.name)
    several = members_of("result_multi_value_2=[4, 9]", grid)
    np.testing.assert_array_equal(several, np.isin(grid.answer, (4, 9)))


def test_the_table_of_a_cell_is_both_modes_scores_of_observed_and_of_shuffled_maps(monkeypatch):
    a, b = np.indices((30, 40)).reshape(2, -1)
    a, b = a[a + b < 60], b[a + b < 60]  # the published grid leaves the answer 999 out
    answer = 940 + a + b
    grid = Grid(a, b, answer, "addition", 40)
    rng = np.random.default_rng(3)
    maps = rng.normal(size=(5, len(a))).astype(np.float32)
    answers, place = np.unique(answer, return_inverse=True)
    maps[0] += 6 * (a % 5 == 1)
    # One pattern at both ends; the higher score counts.
    maps[2] += 6 * ((b % 10 == 4) & (a < 15)) - 6 * ((b == 14) & (a >= 15))
    logits = rng.normal(size=(5, len(answers))).astype(np.float32)
    maps[4], logits[4] = abs(maps[4]), 1 + 6 * ((answers >= answers[-30]) & (answers < answers[-10]))
    null = make_null(grid, maps=(60, 120))
    monkeypatch.setattr(labels, "ROWS", 2)
    table = label_maps(maps, logits, grid, ROWS, 0.6, null, 7, "x")
    pd.testing.assert_frame_equal(label_maps(maps, logits, grid, ROWS, 0.6, null, 7, "x", processes=2), table)
    assert set(table["activations"]) == {"observed", "shuffled"}
    below = answer < 999
    short = Grid(a[below], b[below], answer[below], "addition", grid.max_operand)
    keys = ["layer", "neuron", "heuristic"]
    for activations, k_maps in {"observed": maps, "shuffled": shuffled(maps, 7, "x")}.items():
        rankings = ranked(k_maps), ranked(k_maps * logits[:, place])
        # Rows are both modes' scores: observed maps from half the threshold on, shuffled maps only the labels.
        old = published.score(*([one.among(below) for one in some] for some in rankings), short)
        assert activations == "shuffled" or old.duplicated(["neuron", "heuristic"]).any()
        old = old.groupby(["neuron", "heuristic"], as_index=False)["score"].max()
        base = [members_of(name, short).mean() for name in old["heuristic"]]
        old = old.assign(base_rate=base, lift=old["score"] / base, p_value=np.nan, label=old["score"] >= 0.6)
        new = strict.score(*rankings, grid, null, 0.6)
        for mode, scores in (("reference", old), ("strict", new)):
            chosen = scores[scores["score"] >= 0.3] if activations == "observed" else scores[scores["label"]]
            places = ROWS.iloc[chosen["neuron"]]
            expected = chosen.assign(layer=places["layer"].to_numpy(), neuron=places["neuron"].to_numpy())
            expected = expected.assign(family=chosen["heuristic"].map(family)).sort_values(keys, ignore_index=True)
            got = table[(table["activations"] == activations) & (table["mode"] == mode)].reset_index(drop=True)
            pd.testing.assert_frame_equal(got[expected.columns], expected, check_exact=True)
            if (mode, activations) == ("strict", "observed"):
                assert strict_labels(table).reset_index(drop=True).equals(got[got["label"]].reset_index(drop=True))
    stream = generator(7, "shuffled-activations", "x")
    np.testing.assert_array_equal(shuffled(maps, 7, "x"), stream.permuted(maps, axis=1))


def test_no_neuron_has_no_logit_no_noise_and_no_label(tiny):
    grid = make_grid("a + b", 10)
    none = np.zeros((0, len(grid.a)), dtype=np.float32)
    for found in (answer_logits(tiny[0], tiny[1].number_tokens(grid.answer), {}), smooth_noise(grid, 0, 7)):
        assert (found.shape, found.dtype) == (none.shape, none.dtype)
    table = label_maps(none, none, grid, ROWS[:0], 0.6, None, 7, "x")
    assert [*table.columns] == [*HEURISTICS.columns]
    assert table.dtypes[["layer", "neuron", "label"]].map(str).tolist() == ["int64", "int64", "bool"]


def test_maps_come_back_from_their_file(tmp_path):
    grid = make_grid("a // b", 30)
    rng = np.random.default_rng(1)
    maps = rng.normal(size=(3, len(grid.a))) * np.array([[1], [40], [0]])
    by_answer = rng.normal(size=(3, grid.answer.max() + 1))
    logits, answers = by_answer[:, grid.answer], np.unique(grid.answer)
    neurons = pd.DataFrame({"layer": [1, 1, 3], "neuron": [4, 9, 2]})
    tensors = map_files.to_arrays(maps, by_answer[:, answers], grid, neurons)
    assert [str(tensors[name].dtype) for name in ("codes", "low", "step", "logits")] == ["uint8", *["float32"] * 3]
    write_tensors(tensors, tmp_path / "maps.safetensors", map_files.KIND, {})
    found = map_files.from_arrays(read_tensors(tmp_path / "maps.safetensors", map_files.KIND)[0])
    assert found.neurons.to_dict("list") == {"layer": [1, 1, 3], "neuron": [4, 9, 2]}
    assert found.maps.dtype == np.float32
    np.testing.assert_array_equal(found.logits, logits.astype(np.float32))
    np.testing.assert_array_equal(np.stack([found.a, found.b, found.answer]), [grid.a, grid.b, grid.answer])
    half_a_step = (maps.max(1) - maps.min(1)) / map_files.LEVELS / 2
    assert (np.abs(found.maps - maps).max(1) <= half_a_step * 1.01 + 1e-7).all()


def test_the_sample_has_the_same_random_pairs_in_every_format():
    grid = make_grid("a + b", 60)
    maps = np.random.default_rng(0).normal(size=(2, 2, len(grid.a))).astype(np.float32)
    first, second = (map_files.sample(one, grid, 5, "addition") for one in maps)
    pairs = first["sampled_pairs"]
    np.testing.assert_array_equal(pairs, second["sampled_pairs"])
    np.testing.assert_array_equal(second["sampled"], maps[1][:, pairs])
    drawn = generator(5, "sampled-pairs", "addition").choice(len(grid.a), map_files.SAMPLED, replace=False)
    np.testing.assert_array_equal(pairs, np.sort(drawn))
