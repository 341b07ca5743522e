"""The tokens that neurons promote, and their activations by row of a table, against Hugging Face's own modules."""

from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from schema_checks import check_columns

from form_invariance.beyond.neuron_effects import promoted
from form_invariance.beyond.neuron_effects.table import PROMOTED_TOKENS, ROW_ACTIVATIONS
from form_invariance.cli import main
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.tables.files import read_table, write_table

NEURONS = {2: np.array([3, 60]), 3: np.array([0, 11, 79])}
PLACES = [(layer, int(neuron)) for layer, own in NEURONS.items() for neuron in own]


def test_promoted_tokens_are_those_of_hugging_faces_head(tiny, tiny_folder, monkeypatch):
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    # Layers with more neurons, and vocabularies with more tokens, than are computed at once.
    monkeypatch.setattr(promoted, "_NEURONS", 2)
    monkeypatch.setattr(promoted, "_TOKENS", 7)
    numbers = SimpleNamespace(text="<{}>".format)
    table = promoted.promoted_tokens(tiny[0], numbers, NEURONS)
    assert len(table) == len(PLACES) * 2 * promoted.TOP
    assert (table["text"] == "<" + table["token"].astype(str) + ">").all()
    for layer, neuron in PLACES:
        # What a unit of a neuron adds to the logits of all tokens, by the modules of a Llama, (V,).
        write = theirs.model.layers[layer].mlp.down_proj.weight[:, neuron]
        z = theirs.lm_head(theirs.model.norm.weight * write).detach().numpy()
        z -= z.mean()
        own = table[(table["layer"] == layer) & (table["neuron"] == neuron)].sort_values("rank")
        for direction, order in (("promotes", np.argsort(-z)), ("suppresses", np.argsort(z))):
            found = own[own["direction"] == direction]
            assert found["token"].tolist() == order[: promoted.TOP].tolist()
            np.testing.assert_allclose(found["logit"], z[order[: promoted.TOP]], atol=1e-6)


def circuit(folder, neurons):
    rows = [(4, layer, int(neuron)) for layer, own in neurons.items() for neuron in own]
    table = pd.DataFrame(rows, columns=["k", "layer", "neuron"], dtype="int64")
    write_table(table, folder / "circuit.parquet", CIRCUIT, {}, {"model": "m", "operator": "a"})
    return folder / "circuit.parquet"


def test_activations_by_row_are_those_of_hooks(tiny, tiny_folder, tmp_path):
    """The command, on a table of words whose prompts differ in length; and without neurons."""
    (tmp_path / "task.csv").write_text("n,answer\n" + "".join(f"{n},{n + 1}\n" for n in range(5, 25)))
    model = ["--model", str(tiny_folder)]
    task = ["--table", str(tmp_path / "task.csv"), "--format", "code", "--operator", "next", "--template={n}+1="]
    task += ["--seed", "1"]
    census = tmp_path / "census.parquet"
    assert main(["census", *model, *task, "--output", str(census)]) == 0
    words = ["--census", str(census), "--circuit", str(circuit(tmp_path, NEURONS)), "--k", "4", "--output"]
    assert main(["row-activations", *model, *words, str(tmp_path / "rows.parquet")]) == 0
    table = read_table(tmp_path / "rows.parquet", ROW_ACTIVATIONS)
    check_columns(table, ROW_ACTIVATIONS)
    assert len(table) == len(PLACES) * 20
    bridge = oracles.bridge(tiny_folder)
    for row, own in table.groupby("row"):
        assert set(own["fields"]) == {f'{{"n": "{5 + row}"}}'}
        assert set(own["target"]) == {str(6 + row)}
        tokens = torch.from_numpy(tiny[1].encode_batch([f"{5 + row}+1="]))
        _, cache = bridge.run_with_cache(tokens)
        expected = [float(cache[f"blocks.{layer}.mlp.hook_post"][0, -1, neuron]) for layer, neuron in PLACES]
        assert list(zip(own["layer"], own["neuron"], strict=True)) == PLACES
        np.testing.assert_allclose(own["activation"], expected, atol=5e-6)
    circuit(tmp_path, {})
    assert main(["row-activations", *model, *words, str(tmp_path / "none.parquet")]) == 0
    assert read_table(tmp_path / "none.parquet", ROW_ACTIVATIONS).empty


@pytest.mark.parametrize("neurons", [NEURONS, {}])
def test_the_command_takes_a_neuron_of_several_circuits_once(tiny_folder, tmp_path, neurons):
    path, output = str(circuit(tmp_path, neurons)), tmp_path / "tokens.parquet"
    words = ["--model", str(tiny_folder), "--circuits", path, path, "--k", "4", "--output", str(output)]
    assert main(["promoted-tokens", *words]) == 0
    tokens = read_table(output, PROMOTED_TOKENS)
    check_columns(tokens, PROMOTED_TOKENS)
    assert len(tokens) == sum(map(len, neurons.values())) * 2 * promoted.TOP
