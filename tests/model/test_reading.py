"""A model is what transformers loads: its logits on folders of every kind, or one sentence."""

import json
import random
import shutil

import pytest
import torch
from hugging_face import compare, logits_of, read_by_hugging_face, rewritten
from safetensors.torch import load_file, save_file

from conftest import FAMILIES
from form_invariance.errors import UserError
from form_invariance.model import digests
from form_invariance.model import loading as models
from form_invariance.model.files import files_read
from form_invariance.tables.files import write_table

INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_may_be_absent(family_folders, tmp_path, family):
    """transformers' logits, or a sentence."""
    source = family_folders[family]
    whole = json.loads((source / "config.json").read_text())
    expected = logits_of(source)
    torch.testing.assert_close(expected, read_by_hugging_face(source)[0], atol=3e-5, rtol=1e-4)
    folder, refused = rewritten(source, tmp_path / "model"), set()
    for key in whole:
        (folder / "config.json").write_text(json.dumps({k: v for k, v in whole.items() if k != key}))
        text = compare(folder)
        assert "\n" not in text
        refused |= {key} if text else set()
    sizes = {"hidden_size", "n_embd", "intermediate_size", "vocab_size", "head_dim", "n_inner", "n_positions"}
    numbers = {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "n_layer", "n_head"}
    assert refused <= {
        "model_type",
        *sizes,
        *numbers,
        "tie_word_embeddings",
        "attention_bias",
        "mlp_bias",
        "pad_token_id",
    }


LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CHANGES = [
    {"rope_theta": 500.0, "rope_parameters": None},
    {"rope_theta": 500.0, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
    {"rope_scaling": LINEAR, "rope_parameters": {"rope_theta": 77.0}},
    {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 77.0},
    {"rope_parameters": None, "rope_scaling": LLAMA3, "max_position_embeddings": 16},
    {"rope_parameters": {"full_attention": {"rope_theta": 50.0}, "sliding_attention": {"rope_theta": 9.0}}},
    {"rope_parameters": {"rope_theta": 77.0, "partial_rotary_factor": 0.5}},
    {"rope_parameters": None, "rotary_pct": 0.5, "rotary_emb_base": 500.0},
    {"sliding_window_pattern": 2, "layer_types": None},
    {"layer_types": ["chunked_attention"] * 4},
    {"sliding_window": 5},
    {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0, "layer_types": None},
    {"hidden_act": "gelu"},
    {"hidden_act": "swish"},
    {"hidden_activation": "gelu"},
    {"rms_norm_eps": 0.1, "layer_norm_eps": 0.1, "layer_norm_epsilon": 0.1},
    {"query_pre_attn_scalar": 5},
    {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 3.0},
    {"use_parallel_residual": False},
    {"num_attention_heads": 3, "n_head": 3},
    {"num_hidden_layers": 2, "n_layer": 2},
    {"head_dim": 6},
    {"tie_word_embeddings": None},
    {"attention_bias": "yes"},
    {"is_causal": False},
    {"use_bidirectional_attention": True},
    {"scale_attn_weights": False},
    {"transformers_weights": "other.safetensors"},
]


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "gemma2", "gemma3", "phi3", "gpt-neox", "gpt2"])
def test_keys_that_contradict_others(family_folders, tmp_path, family):
    folder = rewritten(family_folders[family], tmp_path / "model")
    whole = json.loads((folder / "config.json").read_text())
    refused = 0
    for change in CHANGES:
        (folder / "config.json").write_text(json.dumps({**whole, **change}))
        try:
            refused += bool(compare(folder, prove=True))
        except AssertionError as error:
            raise AssertionError(change) from error
    assert refused < len(CHANGES) / 2


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt-neox", "gpt2"])
@pytest.mark.parametrize("tie", [True, False, ...])
def test_embedding_and_unembedding(family_folders, tmp_path, family, tie):
    """One stored weight or two, equal or not, whatever config.json says."""
    source = family_folders[family]
    names = sorted(load_file(source / "model.safetensors"))
    embedding = next(name for name in names if "embed_tokens" in name or "embed_in" in name or "wte" in name)
    head = "lm_head.weight"

    def config(raw):
        raw = {key: value for key, value in raw.items() if key != "tie_word_embeddings"}
        return raw if tie is ... else {**raw, "tie_word_embeddings": tie}

    for which in ((embedding, head), (embedding,), (head,), ()):

        def change(weights, which=which):
            given = weights.pop(embedding)
            weights.pop("embed_out.weight", None)
            weights.pop(head, None)
            own = {embedding: given, head: torch.randn(given.shape) * 0.2}
            return {**weights, **{name: own[name] for name in which}}

        text = compare(rewritten(source, tmp_path / "model", config, change))
        assert bool(text) == (which != (embedding, head)) or not text
        if not which:
            assert text
        if text:
            assert "is missing" in text


@pytest.mark.parametrize("family", ["llama", "gpt-neox", "gpt2", "gemma3"])
def test_weights_taken_away_added_and_renamed(family_folders, tmp_path, family):
    """What transformers would ignore or invent is refused by name; old buffers are not."""
    source, rng = family_folders[family], random.Random(family)
    weights = load_file(source / "model.safetensors")
    prefix = next(name for name in weights if ".0." in name).split(".")[0] + "."
    buffers = ["model.layers.0.self_attn.rotary_emb.inv_freq", "gpt_neox.layers.1.attention.masked_bias"]
    buffers += ["gpt_neox.layers.1.attention.bias", "transformer.h.0.attn.bias"]
    extra = {name: torch.ones(1, 1, 4, 4, dtype=torch.uint8) for name in buffers[1:]}
    folder = rewritten(source, tmp_path / "model", change=lambda weights: {**weights, **extra})
    assert compare(folder) == ""
    bare = rewritten(source, tmp_path / "bare", change=lambda w: {k.removeprefix(prefix): v for k, v in w.items()})
    assert compare(bare) == ""
    for _ in range(4):
        lost = rng.choice([name for name in weights if "layers" in name or ".h." in name])
        gone = rewritten(source, tmp_path / "gone", change=lambda w, lost=lost: {k: w[k] for k in w if k != lost})
        assert f"weight '{lost}' is missing" in compare(gone)
    for strange in ("score.weight", "model.layers.1.mlp.up_proj.lora_A.weight", f"{prefix}adapter.weight"):
        more = rewritten(source, tmp_path / "more", change=lambda w, name=strange: {**w, name: torch.ones(48)})
        assert f"weight '{strange}' does not belong to" in compare(more)


@pytest.mark.parametrize("bias", ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj"])
def test_biases_without_a_flag(family_folders, tmp_path, bias):
    def change(weights):
        for layer in range(4):
            part = "mlp" if bias == "up_proj" else "self_attn"
            name = f"model.layers.{layer}.{part}.{bias}"
            weights[f"{name}.bias"] = torch.randn(len(weights[f"{name}.weight"]))
        return weights

    for family in ("llama", "qwen2", "gemma2"):
        text = compare(rewritten(family_folders[family], tmp_path / "model", change=change))
        assert f"{bias}.bias' does not belong to" in text or (family == "qwen2" and not text)


def save_in_shards(weights, folder, rng, number):
    """Shards with any names, and their index."""
    names = [f"part-{one}.safetensors" for one in range(number)]
    place = {name: rng.choice(names) for name in weights}
    for shard in names:
        save_file({name: one for name, one in weights.items() if place[name] == shard}, folder / shard)
    listed = place | {f"never_stored.{shard}": shard for shard in names}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": listed}))
    return names


def save_unused_files(weights, folder, rng):
    """Files that do not count: backups, other formats, what a training left."""
    stale = {name: torch.zeros_like(one) for name, one in weights.items()}
    for name in ("consolidated", "backup", "a", "model-00009-of-00009", "z", "model.fp16"):
        if rng.random() < 0.5:
            save_file(stale, folder / f"{name}.safetensors")
    for name in ("empty.safetensors", "pytorch_model.bin", "training_args.bin"):
        if rng.random() < 0.5:
            (folder / name).touch()
    if rng.random() < 0.5:
        (folder / "checkpoint-5").mkdir()
        save_file(stale, folder / "checkpoint-5/model.safetensors")


@pytest.mark.parametrize("seed", range(8))
def test_files_that_count(family_folders, tmp_path, seed):
    rng = random.Random(seed)
    source = family_folders[FAMILIES[seed]]
    folder = rewritten(source, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_unused_files(weights, folder, rng)
    way = ("whole", "shards", "shards and then whole", "an index of nothing")[seed % 4]
    shards = save_in_shards(weights, folder, rng, rng.randint(1, 4)) if way == "shards" else []
    if way == "shards and then whole":
        save_in_shards({name: torch.zeros_like(one) for name, one in weights.items()}, folder, rng, 3)
    if way == "an index of nothing":
        (folder / INDEX).write_text(json.dumps({"weight_map": {"lm_head.weight": "gone.safetensors"}}))
    if way != "shards":
        save_file(weights, folder / "model.safetensors")
    assert compare(folder) == ""
    assert torch.equal(logits_of(folder), logits_of(source))
    read = {path.name for path in files_read(folder)}
    assert read == {"config.json", "tokenizer.json", *(shards and [INDEX]), *(shards or ["model.safetensors"])}


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "model")


def refusal(folder):
    with pytest.raises(UserError) as caught:
        models.load(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_folders_without_readable_weights(folder):
    away = folder / "model.safetensors"
    away.rename(folder / "consolidated.safetensors")
    assert "has no weights: transformers reads model.safetensors" in refusal(folder)
    (folder / "consolidated.safetensors").rename(folder / "model-q8_0.gguf")
    assert "model-q8_0.gguf is a GGUF file; give the file itself" in refusal(folder)
    for name in ("sub/model.safetensors", "../other/model.safetensors", "./model.safetensors", "gone"):
        (folder / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
        assert f"{name}, which its index names, is missing" in refusal(folder)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "x"}))
    assert "has an adapter (adapter_config.json)" in refusal(folder)


def test_the_record_follows_what_is_read(folder):
    """A stale index is not recorded; a whole file that comes later is a new file."""
    save_in_shards(load_file(folder / "model.safetensors"), folder, random.Random(0), 2)
    assert INDEX not in set(digests.record(folder)["file"])
    (folder / "model.safetensors").rename(folder / "away")
    path = folder.parent / "model_files.parquet"
    write_table(digests.record(folder), path, digests.MODEL_FILES, {})
    assert INDEX in set(digests.record(folder)["file"])
    (folder / "away").rename(folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors is new since"):
        digests.check(folder, path)


STEM = "model.layers.1.mlp.up_proj"
CODES = {
    "fp8": {"weight": torch.zeros(80, 48).to(torch.float8_e4m3fn), "weight_scale_inv": torch.ones(1, 1)},
    "fp8 without scales": {"weight": torch.zeros(80, 48).to(torch.float8_e5m2)},
    "int8 without scales": {"weight": torch.ones(80, 48, dtype=torch.int8)},
    "int64": {"weight": torch.ones(80, 48, dtype=torch.int64)},
    "4 bit": {"weight": torch.zeros(1920, 1, dtype=torch.uint8), "weight.absmax": torch.ones(60)},
    "GPTQ": {"qweight": torch.zeros(6, 80, dtype=torch.int32), "scales": torch.ones(1, 80)},
}


@pytest.mark.parametrize("kind", CODES)
def test_quantised_weights_are_called_quantised(tiny_folder, tmp_path, kind):
    """Whether config.json says so or not."""

    def change(weights):
        weights = {name: one for name, one in weights.items() if name != f"{STEM}.weight"}
        return weights | {f"{STEM}.{name}": one for name, one in CODES[kind].items()}

    assert f"the model is quantised (weight '{STEM}." in refusal(
        rewritten(tiny_folder, tmp_path / "m", change=change)
    )
    method = {"quantization_config": {"quant_method": "some"}}
    folder = rewritten(tiny_folder, tmp_path / "m", lambda raw: {**raw, **method}, change)
    assert "config.json: the model is quantised (quantization_config: some)" in refusal(folder)


def test_scales_alone_are_not_ignored(tiny_folder, tmp_path):
    scales = {f"{STEM}.weight_scale": torch.ones(80, 1)}
    folder = rewritten(tiny_folder, tmp_path / "m", change=lambda weights: {**weights, **scales})
    assert f"weight '{STEM}.weight_scale' does not belong to" in refusal(folder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats(family_folders, tmp_path, dtype):
    def change(weights):
        return {name: one.to(dtype) for name, one in weights.items()}

    assert compare(rewritten(family_folders["gpt-neox"], tmp_path / "m", change=change)) == ""


def test_weights_are_mapped_and_tied_ones_are_one(family_folders):
    model = models.load(family_folders["llama-tied"])
    assert model.embedding.data_ptr() == model.unembedding.data_ptr()
    assert not model.embedding.requires_grad
