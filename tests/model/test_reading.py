"""A model is what transformers loads: its logits on folders of every kind, or one sentence."""

import json
import shutil
from functools import partial

import pytest
import torch
from hugging_face import INDEX, SHARDS, compare, logits_of, rewritten, write_shards
from safetensors.torch import load_file, save_file

from form_invariance.model.folders import files_read

LINEAR = {"rope_type": "linear", "factor": 4.0}
CHANGES = [
    {"rope_theta": 500.0, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
    {"rope_scaling": LINEAR, "rope_parameters": {"rope_theta": 77.0}},
    {"rope_parameters": {"full_attention": {"rope_theta": 50.0}, "sliding_attention": {"rope_theta": 9.0}}},
    {"rope_parameters": {"rope_theta": 77.0, "partial_rotary_factor": 0.5}},
    {"sliding_window_pattern": 2, "layer_types": None},
    {"layer_types": ["chunked_attention"] * 4},
    {"sliding_window": 5},
    {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0, "layer_types": None},
    {"hidden_act": "gelu", "hidden_activation": "gelu"},
    {"rms_norm_eps": 0.1, "layer_norm_eps": 0.1, "layer_norm_epsilon": 0.1},
    {"query_pre_attn_scalar": 5, "scale_attn_weights": False},
    {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 3.0},
    {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    {"use_parallel_residual": False},
    {"num_attention_heads": 3, "n_head": 3},
    {"num_hidden_layers": 2, "n_layer": 2},
    {"head_dim": 6},
    {"is_causal": False},
    {"use_bidirectional_attention": True},
    {"transformers_weights": "other.safetensors"},
]

BY_DAY = [("llama", True), ("gpt2", False), ("gemma3", False)]
AT_NIGHT = [("gpt2", True), ("gemma3", True), ("qwen2", False), ("gemma2", False), ("gpt-neox", False)]
EACH = [*BY_DAY, *(pytest.param(*one, marks=pytest.mark.nightly) for one in AT_NIGHT)]


@pytest.mark.parametrize(("family", "absent"), EACH)
def test_any_configuration_is_read_as_transformers_does_or_refused(family_folders, tmp_path, family, absent):
    """Some keys contradict others, some are absent."""
    folder = rewritten(family_folders[family], tmp_path / "model")
    whole = json.loads((folder / "config.json").read_text())
    configs = [{**whole, **change} for change in CHANGES]
    configs += [{key: value for key, value in whole.items() if key != lost} for lost in (whole if absent else ())]
    said = []
    for config in configs:
        (folder / "config.json").write_text(json.dumps(config))
        said.append(compare(folder, prove=True))
    assert said.count("") >= 8
    assert not any("\n" in text for text in said)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("tie", [True, False])
def test_embedding_and_unembedding_are_those_that_are_stored(family_folders, tmp_path, family, tie):
    """The stored weights count, one or two, whatever config.json says."""
    embedding = "model.embed_tokens.weight" if family == "llama" else "transformer.wte.weight"
    folder = rewritten(family_folders[family], tmp_path / "model", lambda raw: {**raw, "tie_word_embeddings": tie})
    weights = load_file(folder / "model.safetensors")
    own = {embedding: weights.pop(embedding)}
    weights.pop("lm_head.weight", None)
    both = {**own, "lm_head.weight": own[embedding].flip(0)}
    for stored, refused in ((both, False), (own, not tie), ({}, True)):
        save_file({**weights, **stored}, folder / "model.safetensors")
        text = compare(folder)
        assert ("is missing" in text) == bool(text) == refused


OLD = ["layers.1.attention.masked_bias", "layers.1.attention.bias", "layers.0.self_attn.rotary_emb.inv_freq"]
MASK = torch.ones(1, 1, 4, 4, dtype=torch.uint8)
ALL_THE_SAME = {
    "old buffers": lambda weights, prefix: {**weights, **{prefix + name: MASK.clone() for name in OLD}},
    "no prefix": lambda weights, prefix: {name.removeprefix(prefix): one for name, one in weights.items()},
    "float64": lambda weights, prefix: {name: one.double() for name, one in weights.items()},
    "float16": lambda weights, prefix: {name: one.half() for name, one in weights.items()},
    "bfloat16": lambda weights, prefix: {name: one.bfloat16() for name, one in weights.items()},
}


@pytest.mark.parametrize("stored", ALL_THE_SAME)
@pytest.mark.parametrize(("family", "prefix"), [("llama", "model."), ("gpt-neox", "gpt_neox.")])
def test_what_transformers_reads_all_the_same(family_folders, tmp_path, family, prefix, stored):
    change = partial(ALL_THE_SAME[stored], prefix=prefix)
    assert compare(rewritten(family_folders[family], tmp_path / "model", change=change)) == ""


UP = "model.layers.1.mlp.up_proj"
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
FP8 = {f"{UP}.weight": torch.zeros(80, 48).to(torch.float8_e4m3fn)}
GPTQ = {f"{UP}.weight": None, f"{UP}.qweight": torch.zeros(6, 80, dtype=torch.int32)}
REFUSED = [
    ("llama", {"hidden_act": "relu"}, {}, "model.layers.0.mlp (LlamaMLP) has the activation ReLU"),
    ("llama", {"rope_parameters": YARN}, {}, "has rope scaling 'yarn' with attention_scaling 1.13"),
    ("llama", {"model_type": "nothing-known"}, {}, "cannot be read by transformers"),
    ("llama", {"num_key_value_heads": 3}, {}, "weight 'model.layers.0.self_attn.k_proj.weight' has shape (16, 48"),
    ("llama", {"quantization_config": {"quant_method": "x"}}, {}, "is quantised (quantization_config: x)"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, {}, "h.1.attn (GPT2Attention) has attention_scale"),
    ("llama", {}, {f"{UP}.weight": None}, f"weight '{UP}.weight' is missing"),
    ("llama", {}, {f"{UP}.lora_A.weight": torch.ones(48)}, f"weight '{UP}.lora_A.weight' does not belong to"),
    ("llama", {}, FP8, f"the model is quantised (weight '{UP}.weight' has type F8_E4M3)"),
    ("llama", {}, GPTQ, f"the model is quantised (weight '{UP}.qweight' has type I32)"),
]


@pytest.mark.parametrize(("family", "keys", "weights", "said"), REFUSED, ids=[words for *_, words in REFUSED])
def test_what_would_be_another_model_is_refused_by_name(family_folders, tmp_path, family, keys, weights, said):
    def change(stored):
        return {name: one for name, one in {**stored, **weights}.items() if one is not None}

    text = compare(rewritten(family_folders[family], tmp_path / "m", lambda raw: {**raw, **keys}, change))
    assert said in text
    assert "\n" not in text


@pytest.mark.parametrize("way", ["whole", "shards", "shards and then whole"])
def test_weights_are_those_of_the_files_that_count(family_folders, tmp_path, way):
    """Backups, other formats and files of a training do not count."""
    source = family_folders["llama"]
    folder = rewritten(source, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    stale = {name: torch.zeros_like(one) for name, one in weights.items()}
    (folder / "checkpoint-5").mkdir()
    for name in ("consolidated", "model-00009-of-00009", "checkpoint-5/model"):
        save_file(stale, folder / f"{name}.safetensors")
    for name in ("empty.safetensors", "pytorch_model.bin"):
        (folder / name).touch()
    names = ["model.safetensors"]
    if way != "whole":
        write_shards(weights if way == "shards" else stale, folder)
    if way == "shards":
        (folder / "model.safetensors").unlink()
        names = [INDEX, *SHARDS]
    assert compare(folder) == ""
    assert torch.equal(logits_of(folder), logits_of(source))
    assert {path.name for path in files_read(folder)} == {"config.json", "tokenizer.json", *names}


def test_folders_without_readable_weights_are_refused(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")
    assert "has no weights: it has neither model.safetensors nor" in compare(folder)
    for name in ("sub/model.safetensors", "../other/model.safetensors", "./model.safetensors", "gone", "..", "\0"):
        (folder / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
        assert f"{name}, which its index names, is missing" in compare(folder)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "x"}))
    assert "has an adapter (adapter_config.json)" in compare(folder)
