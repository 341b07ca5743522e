"""Direct effects: against Hugging Face's own activations, and complete in every architecture.

Complete means: what all neurons write, the heads and the embeddings give the model's logits to rounding.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from schema_checks import check_columns

from conftest import FAMILIES
from form_invariance.cli import main
from form_invariance.model import decoder
from form_invariance.model import loading as models
from form_invariance.model.decoder import embed, normalise, run_layers
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.neuron_effects.direct import direct_effects
from form_invariance.stages.neuron_effects.direct_files import KIND, TOP, from_arrays, summed
from form_invariance.stages.neuron_effects.direct_problems import draw
from form_invariance.stages.neuron_effects.table import DIRECT_EFFECTS
from form_invariance.tables.files import read_table, read_tensors, write_table

NEURONS = {2: np.array([3, 60]), 3: np.array([0, 11, 79])}
TEMPLATE = "x = {a} + {b}\nprint(x)  # "


def prompts_of(model, seed=3, prompts=6, tokens=9):
    drawn = torch.Generator().manual_seed(seed)
    return torch.randint(2, model.config.vocabulary, (prompts, tokens), generator=drawn)


def test_effects_are_those_of_hugging_faces_activations(tiny, tiny_folder):
    """Each factor by itself: activations, the norms' scales, weights; and the products of them."""
    from transformers import AutoModelForCausalLM

    model, _ = tiny
    tokens, answers = prompts_of(model), np.array([5, 7, 20, 41, 90])
    found = direct_effects(model, tokens, answers, NEURONS)
    theirs = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    seen = {}

    def keep(name):
        return lambda module, given: seen.update({name: given[0][:, -1].detach()})

    theirs.model.norm.register_forward_pre_hook(keep("final"))
    for layer in NEURONS:
        theirs.model.layers[layer].mlp.down_proj.register_forward_pre_hook(keep(("post", layer)))
        theirs.model.layers[layer].post_attention_layernorm.register_forward_pre_hook(keep(("read", layer)))
    with torch.no_grad():
        z = theirs(tokens).logits[:, -1]
    head = theirs.lm_head.weight - theirs.lm_head.weight.mean(0)
    down = {layer: theirs.model.layers[layer].mlp.down_proj.weight for layer in NEURONS}

    def scale(x):
        return (x.square().mean(-1, keepdim=True) + theirs.config.rms_norm_eps).rsqrt()

    places = [(layer, neuron) for layer, own in NEURONS.items() for neuron in own.tolist()]
    assert found.neurons.tolist() == [list(place) for place in places]
    for row, (layer, neuron) in enumerate(places):
        written = seen["post", layer][:, neuron, None] * down[layer][:, neuron]  # (P, d)
        direct = (written * scale(seen["final"]) * theirs.model.norm.weight) @ head[answers].T
        ours = found.written[:, row, None] * found.final_scale[:, None] * found.unit_logits[row]
        np.testing.assert_allclose(ours, direct.detach(), atol=2e-6)
        assert np.abs(ours).max() > 1e-3
        for column, (later, other) in enumerate(places):
            mlp = theirs.model.layers[later]
            normed = written * scale(seen["read", later]) * mlp.post_attention_layernorm.weight
            expected = (normed @ mlp.mlp.gate_proj.weight[other]) * (layer < later)
            ours = found.written[:, row] * found.input_scale[:, column] * found.unit_inputs[row, column]
            np.testing.assert_allclose(ours, expected.detach(), atol=2e-6)
    centred = (z - z.mean(1, keepdim=True))[:, answers]
    best = centred.sort(1, descending=True)
    np.testing.assert_array_equal(found.top, best.indices[:, :TOP])
    np.testing.assert_allclose(found.top_logits, best.values[:, :TOP], atol=1e-5)
    np.testing.assert_array_equal(found.predicted, z.argmax(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_all_neurons_the_heads_and_the_embeddings_give_the_logits(family, family_folders, monkeypatch):
    model = models.load(family_folders[family])
    model = replace(model, config=replace(model.config, logit_softcap=None))
    tokens, answers = prompts_of(model), np.arange(0, model.config.vocabulary, 3)
    layers, width = model.config.n_layers, model.config.d_mlp
    found = direct_effects(model, tokens, answers, {layer: np.arange(width) for layer in range(layers)})
    reads, heads = [], []
    plain = decoder.neurons
    monkeypatch.setattr(decoder, "neurons", lambda m, layer, x: reads.append(x[:, -1]) or plain(m, layer, x))

    def keep(layer, z):
        w = model.layers[layer]
        out = F.linear(z[:, -1].flatten(-2), w.output, w.output_bias)
        heads.append(normalise(model, out, w.attention_post_norm))
        return z

    with torch.no_grad():
        x = embed(model, tokens)
        start, end = x[:, -1], run_layers(model, x, on_heads=keep)[:, -1]
    biases = [torch.zeros(()) if w.down_bias is None else w.down_bias for w in model.layers]
    others = start + sum(heads) + sum(biases)  # all but the neurons
    head = model.unembedding - model.unembedding.mean(0)
    norm = model.final_norm

    def seen(x, by):
        """x as a norm's weights and the matrix after it see it, without the scale."""
        centred = x if by is None or by.bias is None else x - x.mean(-1, keepdim=True)
        return centred if by is None else centred * by.weight

    rest = torch.from_numpy(found.final_scale)[:, None] * (seen(others, norm) @ head[answers].T)
    rest += 0 if norm.bias is None else norm.bias @ head[answers].T
    logits = (normalise(model, end, norm) @ head.T)[:, answers]
    np.testing.assert_allclose(summed(found) + rest.numpy(), logits, atol=2e-4)
    assert np.abs(summed(found)).max() > 0.1
    for layer, weights in enumerate(model.layers):
        columns = slice(layer * width, (layer + 1) * width)
        gate = weights.up if weights.gate is None else weights.gate
        expected = F.linear(normalise(model, reads[layer], weights.mlp_norm), gate)
        heads_before = heads[:layer] if model.config.parallel else heads[: layer + 1]
        others = start + sum(heads_before, torch.zeros(())) + sum(biases[:layer], torch.zeros(()))
        rest = seen(others, weights.mlp_norm) @ gate.T * torch.from_numpy(found.input_scale[:, columns])
        if weights.mlp_norm is not None and weights.mlp_norm.bias is not None:
            rest += gate @ weights.mlp_norm.bias
        ours = (found.written @ found.unit_inputs[:, columns]) * found.input_scale[:, columns]
        np.testing.assert_allclose(ours + rest.numpy(), expected, atol=2e-4)


def test_prompts_of_several_lengths_and_switched_off_neurons(tiny):
    model, tokenizer = tiny
    tokens = torch.from_numpy(tokenizer.encode_batch(["12+7=", "Jack has 12 apples. How many? Answer:", "9+8="]))
    answers = np.array([5, 7])
    together = direct_effects(model, tokens, answers, NEURONS)
    for row in range(3):
        own = tokens[row : row + 1]
        alone = direct_effects(model, own[:, own[0] >= 0], answers, NEURONS)
        np.testing.assert_allclose(summed(together)[row], summed(alone)[0], atol=1e-6)
    on = np.array([True, False, True, False, False])
    effects = together.written[:, :, None] * together.final_scale[:, None, None] * together.unit_logits
    np.testing.assert_allclose(summed(together, on), effects[:, on].sum(1), atol=1e-6)


def test_without_neurons_no_problem_runs(tiny):
    found = direct_effects(tiny[0], prompts_of(tiny[0]), np.array([5, 7, 9]), {})
    shapes = {name: value.shape for name, value in vars(found).items()}
    assert shapes["written"] == (0, 0)
    assert shapes["unit_logits"] == (0, 3)
    assert (shapes["top"], shapes["predicted"], shapes["neurons"]) == ((0, 3), (0,), (0, 2))


def test_the_draw_is_the_same_for_all_formats_and_whole_where_it_fits():
    assert draw(5, 9, 1, "addition").tolist() == [0, 1, 2, 3, 4]
    drawn = draw(1000, 30, 1, "addition")
    assert len(set(drawn.tolist())) == 30
    assert drawn.tolist() == sorted(drawn.tolist()) == draw(1000, 30, 1, "addition").tolist()
    assert drawn.tolist() != draw(1000, 30, 1, "subtraction").tolist()


def measured(folder, model_folder, *words, neurons=NEURONS, problems=40):
    """The command's table and factors."""
    rows = [(4, layer, neuron) for layer, own in neurons.items() for neuron in own]
    write_table(
        pd.DataFrame(rows, columns=["k", "layer", "neuron"], dtype="int64"), folder / "c.parquet", CIRCUIT, {}
    )
    command = ["direct-effects", "--model", str(model_folder), *words, "--circuit", str(folder / "c.parquet")]
    command += ["--k", "4", "--seed", "1", "--max-operand", "12", "--problems", str(problems)]
    assert main([*command, "--output", str(folder / "t.parquet"), "--arrays-output", str(folder / "t.st")]) == 0
    arrays, provenance = read_tensors(folder / "t.st", KIND)
    return read_table(folder / "t.parquet", DIRECT_EFFECTS), *from_arrays(arrays), provenance


LIMITS = ["--operand-min", "0", "--operand-max", "99", "--answer-min", "0", "--answer-max", "199"]


def test_the_commands_table_says_which_answer_is_first(tiny_folder, tiny, tmp_path):
    words = ["--operator", "addition", "--expression", "a + b", *LIMITS, f"--template={TEMPLATE}"]
    table, found, texts, provenance = measured(tmp_path, tiny_folder, *words)
    check_columns(table, DIRECT_EFFECTS)
    assert len(table) == 40 == len(found.written)
    assert sorted(texts, key=int) == [str(n) for n in range(23)], "the answers of all pairs, not of the drawn ones"
    assert (table["a"] + table["b"] == table["answer"]).all()
    assert table[["a", "b"]].max().max() < 12
    assert provenance["problems"] == 40
    tokens = found.answers[summed(found).argmax(1)]
    assert table["direct_token"].tolist() == tokens.tolist()
    assert table["first"].tolist() == (table["model_token"] == table["direct_token"]).tolist()
    text = tiny[1].tokenizer.decode([int(table["predicted_token"][0])], skip_special_tokens=False)
    assert table["predicted"][0] == text


def test_the_command_on_a_table_and_without_neurons(tiny_folder, tmp_path):
    (tmp_path / "task.csv").write_text("n,answer\n" + "".join(f"{n},{n + 1}\n" for n in range(10, 40)))
    words = ["--operator", "next", "--table", str(tmp_path / "task.csv"), "--template={n}+1="]
    table, found, texts, _ = measured(tmp_path, tiny_folder, *words)
    assert len(table) == 30
    assert texts == [str(n) for n in range(11, 41)]
    assert table["fields"][0] == '{"n": "10"}'
    table, found, *_ = measured(tmp_path, tiny_folder, *words, neurons={})
    assert (len(table), found.written.shape) == (0, (0, 0))
