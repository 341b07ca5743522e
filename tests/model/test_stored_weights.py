"""What a folder stores against what config.json says, and which of its files count: as Hugging Face reads them."""

import json
import random
import re
import shutil

import pytest
import torch
from hugging_face import compare, logits_of, read_by_hugging_face, rewritten
from safetensors.torch import load_file, save_file

from conftest import FAMILIES
from form_invariance.errors import UserError
from form_invariance.model import digests
from form_invariance.model import loading as models
from form_invariance.model.family_defaults import DEFAULTS
from form_invariance.model.files import files_read
from form_invariance.model.stored_weights import weight_files
from form_invariance.model.weight_layouts import LAYOUTS
from form_invariance.tables.files import write_table

INDEX = "model.safetensors.index.json"
ONE_EACH = [name for name in FAMILIES if name not in ("llama-tied", "gpt-neox-sequential")]


def family_of(folder):
    return json.loads((folder / "config.json").read_text())["model_type"]


@pytest.mark.parametrize("family", ONE_EACH)
@pytest.mark.parametrize("tie", [True, False, ...])
def test_embedding_and_unembedding(family_folders, tmp_path, family, tie):
    """Two weights are two, whatever config.json says; one is both if it says so."""
    source = family_folders[family]
    layout = LAYOUTS[family_of(source)]
    head = layout.unembeddings[-1]

    def config(raw):
        raw = {key: value for key, value in raw.items() if key != "tie_word_embeddings"}
        return raw if tie is ... else {**raw, "tie_word_embeddings": tie}

    def stored(which):
        def change(weights):
            embedding = weights.pop(layout.embedding)
            given = {layout.embedding: embedding, head: torch.randn(embedding.shape) * 0.2}
            weights.pop(head, None)
            if which == "same":
                return {**weights, layout.embedding: embedding, head: embedding.clone()}
            return {**weights, **{name: given[name] for name in which}}

        return change

    both = (layout.embedding, head)
    refused = {}
    for which in (both, "same", both[:1], both[1:]):
        refused[which] = compare(rewritten(source, tmp_path / "model", config, stored(which)))
    assert refused[both] == refused["same"] == ""
    is_tied = DEFAULTS[family_of(source)]["tie_word_embeddings"] if tie is ... else tie
    assert bool(refused[both[:1]]) == bool(refused[both[1:]]) != is_tied
    if not is_tied:
        assert head in refused[both[:1]]
        assert layout.embedding in refused[both[1:]]


MATRICES = {
    "llama": [
        *(f"self_attn.{one}_proj" for one in "qkvo"),
        *(f"mlp.{one}_proj" for one in ("gate", "up", "down")),
    ],
    "phi3": ["self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"],
    "gpt_neox": ["attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"],
}


@pytest.mark.parametrize("family", [one for one in ONE_EACH if one != "gpt2"])
def test_biases(family_folders, tmp_path, family):
    """All that are stored are used as Hugging Face uses them, or the first that it ignores is named."""
    source = family_folders[family]
    matrices = MATRICES.get(family_of(source), MATRICES["llama"])

    def with_biases(chosen):
        def change(weights):
            prefix = next(name.split(".0.")[0] for name in sorted(weights) if ".0." in name)
            for layer in range(4):
                for matrix in matrices:
                    bias = f"{prefix}.{layer}.{matrix}.bias"
                    weights.pop(bias, None)
                    if matrix in chosen:
                        weights[bias] = 0.3 * torch.randn(len(weights[f"{prefix}.{layer}.{matrix}.weight"]))
            return weights

        return change

    attention, mlp = (
        [one for one in matrices if one.startswith(part)] for part in (("self_attn", "attention"), "mlp")
    )
    accepted = []
    for flags in (
        {},
        {"attention_bias": True},
        {"attention_bias": True, "mlp_bias": True},
        {"attention_bias": False},
    ):
        for chosen in ([], attention, attention[:3], mlp, matrices):
            folder = rewritten(source, tmp_path / "model", lambda raw: {**raw, **flags}, with_biases(chosen))
            text = compare(folder)
            if text:
                assert ".bias' " in text
                assert "is missing" in text or "does not belong" in text
            else:
                accepted.append((tuple(flags.items()), tuple(chosen)))
    assert accepted


EXTRA = {
    "llama": ["model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"],
    "gpt_neox": [
        *("gpt_neox.layers.1.attention.bias", "gpt_neox.layers.1.attention.masked_bias"),
        "gpt_neox.layers.2.attention.rotary_emb.inv_freq",
    ],
    "gpt2": ["transformer.h.0.attn.bias", "h.1.attn.bias"],
    "gemma3_text": [],
}
STRANGE = [
    *(
        "score.weight",
        "lm_head.bias",
        "model.layers.0.attention.bias",
        "norm.weight",
        "wte.weight",
        "adapter.weight",
    ),
    *("model.layers.1.self_attn.q_norm.weight", "model.layers.4.mlp.up_proj.weight", "embed_tokens.weight"),
    *("transformer.h.1.mlp.c_fc.lora_A.weight", "model.layers.0.self_attn.rotary_emb.cos_cached", "v_head.weight"),
]


@pytest.mark.parametrize("family", ONE_EACH)
def test_weights_taken_away_added_and_renamed(family_folders, tmp_path, family):
    """What Hugging Face ignores or invents is refused by name; old buffers and names without prefix are not."""
    source, rng = family_folders[family], random.Random(family)
    buffers = EXTRA.get(family_of(source), EXTRA["llama"])
    prefix = LAYOUTS[family_of(source)].embedding.split(".")[0] + "."
    expected = logits_of(source)

    def bare(weights):
        return {name.removeprefix(prefix): one for name, one in weights.items()}

    def with_buffers(weights):
        return {**weights, **{name: torch.ones(4) for name in buffers}}

    for change in (bare, with_buffers, lambda weights: with_buffers(bare(weights))):
        folder = rewritten(source, tmp_path / "model", change=change)
        assert compare(folder) == ""
        assert torch.equal(logits_of(folder), expected)
    for number in range(len(STRANGE)):
        lost = rng.choice(sorted(weight_files(source)))
        for change in (
            lambda weights: {name: one for name, one in weights.items() if name != lost},
            lambda weights: {**weights, STRANGE[number]: torch.ones(48)},
            lambda weights: {**weights, lost.removeprefix(prefix): torch.ones(48), lost: weights[lost]},
        ):
            folder = rewritten(source, tmp_path / "model", change=change)
            if set(weight_files(folder)) == set(weight_files(source)):
                continue
            text = compare(folder)
            if text:
                named = text.split("'")[1].removeprefix(prefix)
                assert named in (lost.removeprefix(prefix), STRANGE[number].removeprefix(prefix))


@pytest.mark.parametrize("head", ["lm_head.weight", "embed_out.weight"])
def test_gpt_neoxs_head_has_two_names(family_folders, tmp_path, head):
    folder = rewritten(
        family_folders["gpt-neox"],
        tmp_path / "model",
        change=lambda weights: {
            head if name == "embed_out.weight" else name: one for name, one in weights.items()
        },
    )
    assert compare(folder) == ""


def save_in_shards(weights, folder, rng, number):
    """Shards with any names; the index may put a weight in the wrong one."""
    names = [f"part-{one}.safetensors" for one in range(number)]
    rng.shuffle(names)
    place = {name: rng.choice(names) for name in weights}
    for shard in names:
        save_file({name: one for name, one in weights.items() if place[name] == shard}, folder / shard)
    listed = {name: rng.choice(names) for name in weights}
    listed |= {f"never_stored.{shard}": shard for shard in names}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": listed}))
    return names


def save_beside(weights, folder, rng):
    """Files that do not count: backups, other formats, what a training left, an older save."""
    stale = {name: torch.zeros_like(one) for name, one in weights.items()}
    for name in ("consolidated", "backup", "optimizer", "a", "model-00009-of-00009", "z", "model.fp16"):
        if rng.random() < 0.5:
            save_file(stale, folder / f"{name}.safetensors")
    for name in (
        "empty.safetensors",
        "model-00001-of-00001.safetensors",
        "pytorch_model.bin",
        "training_args.bin",
    ):
        if rng.random() < 0.5:
            (folder / name).touch()
    for name in ("checkpoint-5", "original", "onnx"):
        if rng.random() < 0.5:
            (folder / name).mkdir()
            save_file(stale, folder / name / "model.safetensors")
            (folder / name / "config.json").write_text("{")
            (folder / name / INDEX).write_text("{")


@pytest.mark.parametrize("seed", range(24))
def test_files_that_count(family_folders, tmp_path, seed):
    """A folder with weights in any files, and any other files."""
    rng = random.Random(seed)
    source = family_folders[FAMILIES[seed % len(FAMILIES)]]
    folder = rewritten(source, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_beside(weights, folder, rng)
    way = rng.choice(["whole", "shards", "shards and then whole", "an index of nothing"])
    shards = save_in_shards(weights, folder, rng, rng.randint(1, 4)) if way == "shards" else []
    if way == "shards and then whole":
        save_in_shards({name: torch.zeros_like(one) for name, one in weights.items()}, folder, rng, 3)
    if way == "an index of nothing":
        (folder / INDEX).write_text(
            json.dumps({"metadata": {}, "weight_map": {"lm_head.weight": "gone.safetensors"}})
        )
    if way != "shards":
        save_file(weights, folder / "model.safetensors")
    assert compare(folder) == ""
    assert torch.equal(logits_of(folder), logits_of(source))
    counted = {"config.json", "tokenizer.json", *(shards and [INDEX]), *(shards or ["model.safetensors"])}
    assert {path.name for path in files_read(folder)} >= counted - {
        name for name in shards if not load_file(folder / name)
    }
    assert {path.name for path in files_read(folder)} <= counted


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "model")


def refusal(folder):
    with pytest.raises(UserError) as caught:
        models.load(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_other_names_of_the_weights_are_not_read(folder):
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")
    assert read_by_hugging_face(folder) is None
    text = refusal(folder)
    assert f"model folder {folder} has no weights" in text
    assert "consolidated.safetensors" in text
    assert "pickled" not in text


def test_a_gguf_file_in_a_folder_is_named(folder):
    (folder / "model.safetensors").rename(folder / "model-q8_0.gguf")
    assert re.search(r"model-q8_0\.gguf is a GGUF file; .*import-gguf", refusal(folder))


def test_a_weight_in_two_shards(folder):
    """The two may differ, and an index may say either."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_in_shards(weights, folder, random.Random(1), 1)
    save_file({"model.norm.weight": torch.zeros(48)}, folder / "part-1.safetensors")
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["model.norm.weight"] = "part-1.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    text = refusal(folder)
    assert "weight 'model.norm.weight' is in part-0.safetensors and in part-1.safetensors" in text


@pytest.mark.parametrize("name", ["sub/model.safetensors", "../other/model.safetensors", "./model.safetensors"])
def test_a_shard_in_another_folder_is_not_mistaken_for_one_of_the_same_name(folder, name):
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    for other in (folder / name, folder / name.rpartition("/")[2]):
        other.parent.mkdir(exist_ok=True)
        shutil.copy(folder / "part.safetensors", other)
    (folder / "model.safetensors").unlink(missing_ok=True)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"model.norm.weight": name}}))
    assert f"{name}, which its index names, is missing" in refusal(folder)


def test_an_adapter_is_not_ignored(folder):
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


def quantised(kind):
    """Weights as some quantisation stores them, by name."""
    stem = "model.layers.1.mlp.up_proj"

    def change(weights):
        weight = weights.pop(f"{stem}.weight")
        codes = {
            "fp8": {"weight": weight.to(torch.float8_e4m3fn), "weight_scale_inv": torch.ones(1, 1)},
            "fp8 without scales": {"weight": weight.to(torch.float8_e5m2)},
            "scales alone": {"weight": weight, "weight_scale": torch.ones(80, 1)},
            "int8 without scales": {"weight": (weight * 100).to(torch.int8)},
            "int64": {"weight": (weight * 100).to(torch.int64)},
            "bitsandbytes int8": {"weight": (weight * 100).to(torch.int8), "SCB": torch.ones(80)},
            "bitsandbytes 4 bit": {
                "weight": torch.zeros(1920, 1, dtype=torch.uint8),
                "weight.absmax": torch.ones(60),
                "weight.quant_map": torch.ones(16),
                "weight.quant_state.bitsandbytes__nf4": torch.zeros(90, dtype=torch.uint8),
            },
            "GPTQ": {
                "qweight": torch.zeros(6, 80, dtype=torch.int32),
                "qzeros": torch.zeros(1, 10, dtype=torch.int32),
                "scales": torch.ones(1, 80, dtype=torch.float16),
                "g_idx": torch.zeros(48, dtype=torch.int32),
            },
            "AWQ": {
                "qweight": torch.zeros(48, 10, dtype=torch.int32),
                "qzeros": torch.zeros(1, 10, dtype=torch.int32),
                "scales": torch.ones(1, 80, dtype=torch.float16),
            },
            "compressed-tensors": {
                "weight_packed": torch.zeros(80, 6, dtype=torch.int32),
                "weight_scale": torch.ones(80, 1, dtype=torch.bfloat16),
                "weight_shape": torch.tensor([80, 48]),
            },
            "quanto": {"weight._data": torch.zeros(80, 48, dtype=torch.int8), "weight._scale": torch.ones(80, 1)},
            "HQQ": {
                "W_q": torch.zeros(80, 24, dtype=torch.uint8),
                "scale": torch.ones(80),
                "zero": torch.ones(80),
            },
            "fp4": {"weight": torch.zeros(80, 24, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)},
        }[kind]
        return {**weights, **{f"{stem}.{name}": one for name, one in codes.items()}}

    return change


KINDS = ["fp8", "fp8 without scales", "scales alone", "int8 without scales", "int64", "bitsandbytes int8"]
KINDS += ["bitsandbytes 4 bit", "GPTQ", "AWQ", "compressed-tensors", "quanto", "HQQ", "fp4"]


@pytest.mark.parametrize("kind", KINDS)
def test_quantised_weights_are_called_quantised(tiny_folder, tmp_path, kind):
    """Whether config.json says so or not."""
    folder = rewritten(tiny_folder, tmp_path / "model", change=quantised(kind))
    text = refusal(folder)
    assert re.search(r"the model is quantised \(weight 'model\.layers\.1\.mlp\.up_proj\.\w", text)
    assert "config.json" not in text
    method = {"quantization_config": {"quant_method": "some"}}
    folder = rewritten(tiny_folder, tmp_path / "model", lambda raw: {**raw, **method}, quantised(kind))
    assert re.search(r"config\.json: the model is quantised \(quantization_config: some\)", refusal(folder))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats_and_old_masks_are_no_quantisation(family_folders, tmp_path, dtype):
    folder = rewritten(
        family_folders["gpt-neox"],
        tmp_path / "model",
        lambda raw: {**raw, "dtype": "float32"},
        lambda weights: {
            **{name: one.to(dtype) for name, one in weights.items()},
            "gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 8, 8, dtype=torch.uint8),
            "gpt_neox.layers.1.attention.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool),
        },
    )
    assert compare(folder) == ""
