"""What single neurons do, the tokens that they promote, and their activations by row of a table, against hooks."""

from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from small_prompts import CACHE_PROMPTS, plain_means, prepare
from transformers import AutoModelForCausalLM

from form_invariance.beyond.neuron_effects import promoted
from form_invariance.beyond.neuron_effects.compute import neuron_effects
from form_invariance.beyond.neuron_effects.table import NEURON_EFFECTS, PROMOTED_TOKENS, ROW_ACTIVATIONS
from form_invariance.cli import main
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.tables.files import read_table, write_table

FIRST = 2
NEURONS = {2: np.array([3, 60]), 3: np.array([0, 3, 79])}
PLACES = [(layer, int(neuron)) for layer, own in NEURONS.items() for neuron in own]


def test_promoted_tokens_are_those_of_hugging_faces_head(tiny, tiny_folder, monkeypatch):
    theirs = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    # Layers and vocabularies are larger than what is computed at once.
    monkeypatch.setattr(promoted, "_NEURONS", 2)
    monkeypatch.setattr(promoted, "_TOKENS", 7)
    numbers = SimpleNamespace(text="<{}>".format)
    table = promoted.promoted_tokens(tiny[0], numbers, NEURONS)
    assert len(table) == len(PLACES) * 2 * promoted.TOP
    assert (table["text"] == "<" + table["token"].astype(str) + ">").all()
    for layer, neuron in PLACES:
        # What one unit of a neuron's activation adds to all logits, by the modules of a Llama, (V,).
        write = theirs.model.layers[layer].mlp.down_proj.weight[:, neuron]
        z = theirs.lm_head(theirs.model.norm.weight * write).detach().numpy()
        z -= z.mean()
        own = table[(table["layer"] == layer) & (table["neuron"] == neuron)].sort_values("rank")
        for direction, order in (("promotes", np.argsort(-z)), ("suppresses", np.argsort(z))):
            found = own[own["direction"] == direction]
            assert found["token"].tolist() == order[: promoted.TOP].tolist()
            assert found["rank"].tolist() == [*range(1, promoted.TOP + 1)]
            np.testing.assert_allclose(found["logit"], z[order[: promoted.TOP]], atol=1e-6)


def circuit(folder, neurons, model="m", operator="a"):
    rows = [(4, layer, int(neuron)) for layer, own in neurons.items() for neuron in own]
    table = pd.DataFrame(rows, columns=["k", "layer", "neuron"], dtype="int64")
    path = folder / f"circuit_{operator}.parquet"
    write_table(table, path, CIRCUIT, {"k": [4]}, {"model": model, "operator": operator})
    return path


def test_activations_by_row_are_those_of_hooks(tiny, tiny_folder, tmp_path):
    (tmp_path / "task.csv").write_text("n,answer\n" + "".join(f"{n},{n + 1}\n" for n in range(5, 25)))
    model, census = ["--model", str(tiny_folder)], tmp_path / "census.parquet"
    task = ["--table", str(tmp_path / "task.csv"), "--format", "code", "--operator", "next", "--template={n}+1="]
    assert main(["census", *model, *task, "--seed", "1", "--output", str(census)]) == 0
    path = circuit(tmp_path, NEURONS, str(tiny_folder), "next")
    words = ["row-activations", *model, f"--census={census}", f"--circuit={path}", "--k=4", "--output"]
    assert main([*words, str(tmp_path / "rows.parquet")]) == 0
    table = read_table(tmp_path / "rows.parquet", ROW_ACTIVATIONS)
    assert len(table) == len(PLACES) * 20
    bridge = oracles.bridge(tiny_folder)
    for row, own in table.groupby("row"):
        asked = [f'{{"n": "{5 + row}"}}', str(6 + row)]
        assert own[["fields", "target"]].drop_duplicates().values.tolist() == [asked]
        tokens = torch.from_numpy(tiny[1].encode_batch([f"{5 + row}+1="]))
        _, cache = bridge.run_with_cache(tokens)
        expected = [float(cache[f"blocks.{layer}.mlp.hook_post"][0, -1, neuron]) for layer, neuron in PLACES]
        assert list(zip(own["layer"], own["neuron"], strict=True)) == PLACES
        np.testing.assert_allclose(own["activation"], expected, atol=5e-6)
    circuit(tmp_path, {}, str(tiny_folder), "next")
    assert main([*words, str(tmp_path / "none.parquet")]) == 0
    assert read_table(tmp_path / "none.parquet", ROW_ACTIVATIONS).empty


def test_the_command_takes_a_neuron_of_several_circuits_once(tiny_folder, tmp_path):
    output = tmp_path / "tokens.parquet"
    for neurons, count in ((NEURONS, len(PLACES)), ({}, 0)):
        paths = [str(circuit(tmp_path, neurons, operator=name)) for name in ("a", "b")]
        words = ["--model", str(tiny_folder), "--circuits", *paths, "--k", "4", "--output", str(output)]
        assert main(["promoted-tokens", *words]) == 0
        assert len(read_table(output, PROMOTED_TOKENS)) == count * 2 * promoted.TOP


def test_effects_of_single_neurons_equal_hooks(tiny, run, tiny_folder):
    model, tokenizer = tiny
    members = torch.zeros(2, model.config.d_mlp, dtype=torch.bool)
    members[tuple(torch.tensor(PLACES).T - torch.tensor([[FIRST], [0]]))] = True
    tokens, answers, means = prepare(model, tokenizer, "symbolic")
    table = neuron_effects(run, tokens, answers, members.numpy(), means, batch=2)
    assert list(zip(table["layer"], table["neuron"], strict=True)) == PLACES
    assert set(table.columns) == set(NEURON_EFFECTS.columns)
    bridge, plain = oracles.bridge(tiny_folder), plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["symbolic"], 4)

    def hooked(mask):
        z = oracles.ablated(bridge, tokens, FIRST, mask, plain[FIRST:], slice(-1, None))
        return oracles.readout(z, answers, True)

    whole = hooked(torch.zeros_like(members))
    for row in table.itertuples():
        alone = torch.zeros_like(members)
        alone[row.layer - FIRST, row.neuron] = True
        knocked = hooked(alone)
        expected = (knocked["probability"] - whole["probability"]).mean()
        assert row.knockout_probability == pytest.approx(float(expected), abs=1e-7)
    assert (table["knockout_probability"].abs() > 1e-5).any(), "else the comparison says nothing"
