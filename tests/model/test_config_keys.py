"""Keys of config.json that are absent or contradict others: Hugging Face's logits, or one sentence."""

import dataclasses
import json

import pytest
import torch
from hugging_face import compare, logits_of, read_by_hugging_face, rewritten

from conftest import FAMILIES
from form_invariance.errors import UserError
from form_invariance.model.families import READERS, decoder_config
from form_invariance.model.family_defaults import _GPT2_SIZES, _SIZES, DEFAULTS, settings

WITHOUT_EFFECT = {
    *("use_cache", "pad_token_id", "bos_token_id", "eos_token_id", "initializer_range", "pretraining_tp"),
    *("attention_dropout", "hidden_dropout", "classifier_dropout"),
    *("resid_pdrop", "embd_pdrop", "attn_pdrop", "is_decoder", "add_cross_attention", "reorder_and_upcast_attn"),
    *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"),
}
"""Keys that change no logit of a model that is not trained further."""
OF_LONG_PROMPTS = {"max_window_layers", "layer_types", "original_max_position_embeddings"}
"""Keys that matter only beyond the length limit, or to rope scalings that are refused."""


@pytest.mark.parametrize("family", READERS)
def test_defaults_are_those_of_the_familys_configuration(family):
    from transformers import PreTrainedConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    theirs = CONFIG_MAPPING[family]
    fields = {one.name: one.default for one in dataclasses.fields(theirs)}
    rope = getattr(theirs(), "rope_parameters", None) or {}
    both = {**rope, "rotary_emb_base": rope.get("rope_theta"), "rotary_pct": rope.get("partial_rotary_factor")}
    if family == "gemma3_text":
        both = {"rope_theta": rope["full_attention"]["rope_theta"], "sliding_window_pattern": 6}
        both["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    for key, default in DEFAULTS[family].items():
        assert default == fields.get(key, both.get(key)), key
    common = {one.name for one in dataclasses.fields(PreTrainedConfig)}
    read = {*DEFAULTS[family], *(_GPT2_SIZES if family == "gpt2" else _SIZES)}
    ignored = {"attn_logit_softcapping"} if family == "gemma3_text" else set()
    assert set(fields) - common - read <= WITHOUT_EFFECT | OF_LONG_PROMPTS | ignored


@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_may_be_absent(family_folders, tmp_path, family):
    """Hugging Face's logits, or a sentence that names the key."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    def meaning(raw):
        try:
            return CONFIG_MAPPING[raw["model_type"]].from_dict(json.loads(json.dumps(raw))).to_dict()
        except Exception:
            return None

    source = family_folders[family]
    whole = json.loads((source / "config.json").read_text())
    expected, refused = logits_of(source), set()
    torch.testing.assert_close(expected, read_by_hugging_face(source)[0], atol=3e-5, rtol=1e-4)
    folder = rewritten(source, tmp_path / "model")
    for key in whole:
        raw = {name: value for name, value in whole.items() if name != key}
        (folder / "config.json").write_text(json.dumps(raw))
        if key != "model_type" and meaning(raw) == meaning(whole):
            assert torch.equal(logits_of(folder), expected), key
        elif text := compare(folder):
            assert key in text
            refused.add(key)
    sizes = {"hidden_size", "n_embd", "intermediate_size", "vocab_size", "head_dim", "n_inner"}
    numbers = {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "n_layer", "n_head"}
    flags = {"tie_word_embeddings", "attention_bias", "mlp_bias"}
    assert refused <= {"model_type", *sizes, *numbers, "n_positions", *flags}


LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
BY_LAYER = {"full_attention": {"rope_theta": 50.0}, "sliding_attention": {"rope_theta": 9.0, **LINEAR}}
CHANGES = [
    {"rope_theta": 500.0, "rope_parameters": None},
    {"rope_theta": 500.0, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
    {"rope_theta": 500.0, "rope_parameters": {"rope_type": "default"}},
    {"rope_scaling": LINEAR, "rope_parameters": {"rope_theta": 77.0}},
    {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 77.0},
    {"rope_parameters": {**LINEAR, "rope_theta": 77.0}},
    {"rope_parameters": None, "rope_scaling": LLAMA3, "max_position_embeddings": 16},
    {
        "rope_parameters": {**LLAMA3, "rope_theta": 100.0, "original_max_position_embeddings": 64},
        "original_max_position_embeddings": 4,
    },
    {"rope_scaling": {**LLAMA3, "rope_theta": 100.0}, "original_max_position_embeddings": 4},
    {"rope_parameters": BY_LAYER},
    {"rope_parameters": {"rope_theta": 77.0, "partial_rotary_factor": 0.5}},
    {"rope_parameters": None, "rope_local_base_freq": 5.0, "rope_theta": 77.0},
    {"rope_parameters": None, "rotary_pct": 0.5, "rotary_emb_base": 500.0},
    {"rope_parameters": None, "partial_rotary_factor": 0.5},
    {"sliding_window_pattern": 2, "layer_types": None},
    {"layer_types": ["full_attention"] * 4},
    {"layer_types": ["chunked_attention"] * 4},
    {"sliding_window": 5},
    {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0, "layer_types": None},
    {"hidden_act": "gelu"},
    {"hidden_act": "swish"},
    {"hidden_activation": "gelu"},
    {"rms_norm_eps": 0.1},
    {"rms_norm_eps": None},
    {"layer_norm_eps": 0.1},
    {"layer_norm_epsilon": 0.1},
    {"query_pre_attn_scalar": 5},
    {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 3.0},
    {"use_parallel_residual": False},
    {"num_attention_heads": 3},
    {"num_hidden_layers": 2},
    {"n_head": 3},
    {"n_head": 5},
    {"head_dim": 6},
    {"tie_word_embeddings": None},
    {"attention_bias": "yes"},
    {"is_causal": False},
    {"use_bidirectional_attention": True},
    {"scale_attn_weights": False},
    {"scale_attn_by_inverse_layer_idx": True},
    {"transformers_weights": "other.safetensors"},
]


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in ("llama-tied", "gpt-neox-sequential")]
)
def test_keys_that_contradict_others(family_folders, tmp_path, family):
    """Keys of other families, old and new forms of one key, and settings that no family has."""
    folder = rewritten(family_folders[family], tmp_path / "model")
    whole = json.loads((folder / "config.json").read_text())
    read, refused = {*settings(whole), "is_causal"}, 0
    for number, change in enumerate(CHANGES):
        if not read & set(change) and (number + FAMILIES.index(family)) % 4:
            continue  # of the other families' keys a few are enough
        (folder / "config.json").write_text(json.dumps({**whole, **change}))
        try:
            refused += bool(compare(folder))
        except AssertionError as error:
            raise AssertionError(change) from error
    assert refused < len(CHANGES) / 2


def test_gpt2_has_two_names_of_a_key(family_folders, tmp_path):
    """Where both are there, Hugging Face takes the name that other families use."""
    folder = rewritten(family_folders["gpt2"], tmp_path / "model", lambda raw: {**raw, "num_attention_heads": 3})
    assert compare(folder) == ""
    raw = json.loads((folder / "config.json").read_text())
    raw = {
        **raw,
        "num_attention_heads": 6,
        "max_position_embeddings": 64,
        "hidden_size": 48,
        "num_hidden_layers": 4,
    }
    raw = {key: value for key, value in raw.items() if key not in ("n_head", "n_embd", "n_layer", "n_positions")}
    (folder / "config.json").write_text(json.dumps(raw))
    assert compare(folder) == ""


@pytest.mark.parametrize(
    ("method", "said"), [({"quant_method": "fp8"}, "fp8"), ({}, "None"), ([], r"\[\]"), ("awq", "awq")]
)
def test_a_quantised_model_is_called_quantised(method, said):
    raw = {"model_type": "llama", "quantization_config": method}
    with pytest.raises(UserError, match=rf"^x: the model is quantised \(quantization_config: {said}\)"):
        decoder_config(raw, "x")
