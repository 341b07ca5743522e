"""A circuit that is known because it was built: the whole pipeline must find it, and nothing else.

A Llama of four layers adds by construction. Attention of layer 0 averages the operands' values at the last token,
whatever the format; eight neurons in each of layers 2 and 3 carry the sum to a dimension that the unembedding
reads, which scores each number n by (2ns - n²) / 200. All other neurons are random, and write where nothing reads.
"""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from form_invariance.cli import main
from form_invariance.embedded.tokenizer import BOS, build_tokenizer

TEMPLATES = {"symbolic": "{a}+{b}=", "code": "x = {a} + {b}\nprint(x) # "}
LATE, PLANTED, WIDTH, D, HEAD = (2, 3), 8, 24, 32, 16
CONSTANT, NUMBER, VALUE, SUM, ANSWER = range(5)
K, SHARPNESS = 100.0, 1 / 200


def planted(layer):
    """The neurons of a late layer that carry the sum."""
    return set(np.random.default_rng(layer).permutation(WIDTH)[:PLANTED].tolist())


def build(folder):
    """Write the model as a Hugging Face folder."""
    tokenizer = build_tokenizer(list(TEMPLATES.values()))
    vocabulary = tokenizer.get_vocab_size()
    rng = np.random.default_rng(0)
    embedding = np.zeros((vocabulary, D))
    embedding[:, CONSTANT] = K
    unembedding = np.zeros((vocabulary, D))
    root = D**0.5  # RMS normalisation turns x into x * root / |x|, and |x| is K but for a trifle
    unembedding[:, CONSTANT] = -15 / root
    for n in range(1000):
        token = tokenizer.token_to_id(str(n))
        embedding[token, NUMBER], embedding[token, VALUE] = K, n / 100
        if n <= 200:
            unembedding[token, CONSTANT] = -SHARPNESS * n**2 / root
            unembedding[token, ANSWER] = SHARPNESS * 2 * n * K * 100 / root
    weights = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": unembedding,
        "model.norm.weight": np.ones(D),
    }
    for layer in range(4):
        q, k, v, o = np.zeros((HEAD, D)), np.zeros((HEAD, D)), np.zeros((HEAD, D)), np.zeros((D, HEAD))
        gate, up = rng.normal(size=(2, WIDTH, D)) * 0.3
        down = np.zeros((D, WIDTH))
        down[ANSWER + 1 :] = rng.normal(size=(D - ANSWER - 1, WIDTH)) * 0.01
        if layer == 0:
            # The slowest rotary pair hardly turns: every token looks for numbers, and finds all alike.
            q[HEAD // 2 - 1, CONSTANT], k[HEAD // 2 - 1, NUMBER], v[0, VALUE] = 4, 4, 1
            # A number's own norm is K times root two; the mean of two values becomes their sum over 100.
            o[SUM, 0] = 2 * K * 2**0.5 / root
        if layer in LATE:
            own = sorted(planted(layer))
            shares = rng.uniform(0.5, 1.5, PLANTED)
            shares /= shares.sum() * len(LATE)
            gate[own], up[own], down[:, own] = 0, 0, 0
            gate[own, CONSTANT] = 20 / root  # silu(20) = 20
            up[own, SUM] = 1
            down[ANSWER, own] = shares * K / (20 * root)
        at = f"model.layers.{layer}"
        for name, matrix in (("q", q), ("k", k), ("v", v), ("o", o)):
            weights[f"{at}.self_attn.{name}_proj.weight"] = matrix
        for name, matrix in (("gate", gate), ("up", up), ("down", down)):
            weights[f"{at}.mlp.{name}_proj.weight"] = matrix
        weights[f"{at}.input_layernorm.weight"] = weights[f"{at}.post_attention_layernorm.weight"] = np.ones(D)
    folder.mkdir()
    tensors = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": D,
        "intermediate_size": WIDTH,
        "num_hidden_layers": 4,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "vocab_size": vocabulary,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e8,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.token_to_id(BOS),
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer.save(str(folder / "tokenizer.json"))
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pipeline run on the planted model, from the census to the interventions."""
    base = tmp_path_factory.mktemp("planted")
    build(base / "model")
    model = ["--model", str(base / "model")]

    def run(command, *words):
        assert main([command, *(() if command in ("circuit", "ranking") else model), *map(str, words)]) == 0

    operator = ["--operator", "addition"]
    limits = ["--operand-min", 6, "--operand-max", 60, "--answer-min", 12, "--answer-max", 120]
    for name, template in TEMPLATES.items():
        at = {kind: base / f"{name}_{kind}.parquet" for kind in ("census", "dataset", "corrupt", "attribution")}
        sizes = ["--train", 40, "--eval", 30, "--corrupt-seeds", 1]
        problem = [*operator, "--expression", "a + b", "--template", template, *limits]
        run("census", *problem, "--output", at["census"])
        outputs = ["--output", at["dataset"], "--corrupt-output", at["corrupt"]]
        run("dataset", *operator, "--census", at["census"], *sizes, *outputs)
        train = ["--dataset", at["dataset"], "--corrupt-table", at["corrupt"]]
        run("attribution", *train, "--output", at["attribution"])
        effects = base / f"{name}_effects.safetensors"
        run("patching", *train, "--attribution", at["attribution"], "--output", effects)
        inputs = ["--attribution", at["attribution"], "--effects", effects]
        run("ranking", *inputs, "--output", base / f"{name}_ranking.parquet")
    effects = [f"{name}={base / f'{name}_effects.safetensors'}" for name in TEMPLATES]
    run("circuit", "--effects", *effects, "--k", PLANTED, "--output", base / "circuit.parquet")
    for name in TEMPLATES:
        census, means = base / f"{name}_census.parquet", base / f"{name}_means.safetensors"
        run("mean-cache", "--census", f"addition={census}", "--prompts", 300, "--output", means)
        inputs = ["--dataset", base / f"{name}_dataset.parquet", "--circuit", base / "circuit.parquet"]
        inputs += ["--mean-cache", means, "--ranking", base / f"{name}_ranking.parquet"]
        outputs = ["--output", base / f"{name}_done.parquet", "--prompts-output", base / f"{name}_prompts.parquet"]
        run("interventions", *inputs, "--k", PLANTED, "--matched-seeds", 1, "--bootstrap", 50, *outputs)
    return base


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_model_adds(folder, name):
    assert pd.read_parquet(folder / f"{name}_census.parquet")["correct"].mean() > 0.99


@pytest.mark.parametrize("name", TEMPLATES)
def test_both_stages_put_the_planted_neurons_first(folder, name):
    ranking = pd.read_parquet(folder / f"{name}_ranking.parquet")
    for layer in LATE:
        own = ranking[ranking["layer"] == layer]
        assert set(own[own["rank"] <= PLANTED]["neuron"]) == planted(layer)
        assert set(own[own["attribution_rank"] <= PLANTED]["neuron"]) == planted(layer)


def test_the_shared_circuit_is_the_planted_one(folder):
    circuit = pd.read_parquet(folder / "circuit.parquet")
    assert {layer: set(own["neuron"]) for layer, own in circuit.groupby("layer")} == {
        layer: planted(layer) for layer in LATE
    }


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("positions", ["all", "last"])
def test_it_is_sufficient_and_necessary(folder, name, positions):
    table = pd.read_parquet(folder / f"{name}_done.parquet").query("positions == @positions")
    circuit = table[table["neurons"] == "circuit"].set_index("intervention")["faithfulness_mean"]
    assert circuit["keep_only"] == pytest.approx(1, abs=0.02)
    assert abs(circuit["knockout"]) <= 0.05
    random = table[table["neurons"] == "random"].groupby("intervention")["faithfulness_mean"].mean()
    assert abs(random["keep_only"]) <= 0.05
    assert random["knockout"] == pytest.approx(1, abs=0.02)
