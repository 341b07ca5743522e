"""A model in memory, Hugging Face's or TransformerLens's bridge: its logits, its neurons' effects, refusals."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hugging_face import reading
from oracles import indirect_effect
from torch import nn

from conftest import FAMILIES
from form_invariance import library
from form_invariance.errors import UserError
from form_invariance.model import decoder

TOKENS = torch.arange(3, 87, 7)[None]


def in_memory(folder):
    """Hugging Face's model and tokenizer of a folder."""
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    return AutoModelForCausalLM.from_pretrained(folder).eval(), PreTrainedTokenizerFast.from_pretrained(folder)


def boot(folder):
    """The model of a folder as TransformerLens's bridge."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return TransformerBridge.boot_transformers(str(folder), device="cpu", tokenizer=tokenizer)


@pytest.fixture
def tuned(family_folders):
    """A model whose weights are not those of its folder, and its tokenizer."""
    model, tokenizer = in_memory(family_folders["llama"])
    change(model)
    return model, tokenizer


@torch.no_grad()
def change(model):
    """Another value of every weight, as a step of training would give."""
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight += 0.05 * torch.randn(weight.shape, generator=generator)


@torch.no_grad()
def logits(run):
    return decoder.logits(run.model, decoder.run_layers(run.model, decoder.embed(run.model, TOKENS)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_weights_in_memory(family_folders, monkeypatch, family, dtype):
    model, tokenizer = in_memory(family_folders[family])
    change(model.to(dtype))
    monkeypatch.setattr(Path, "open", None)  # nothing is read from disk
    run = library.load_model(model, tokenizer=tokenizer, device="cpu")
    with torch.no_grad():
        expected = model(TOKENS).logits
    torch.testing.assert_close(logits(run), expected.float(), atol=1e-4, rtol=0)
    before = logits(run)
    change(model)
    assert torch.equal(logits(run), before)
    with torch.no_grad():
        assert (model(TOKENS).logits - before).abs().max() > 0.01
    for prompt in ("12+7=", "print(3)  # "):
        assert [*run.tokens([prompt])[0].tolist()] == tokenizer(prompt)["input_ids"]


@pytest.mark.parametrize("family", FAMILIES)
def test_bridges(family_folders, family):
    bridge = boot(family_folders[family])
    change(bridge.original_model.get_submodule("lm_head"))
    bridge.train()
    run = library.load_model(bridge, device="cpu")
    assert bridge.training
    with torch.no_grad():
        torch.testing.assert_close(logits(run), bridge.eval()(TOKENS), atol=1e-4, rtol=0)
    assert run.tokens(["12+7="]).tolist() == [bridge.tokenizer("12+7=")["input_ids"]]


def test_a_bridge_whose_own_weights_were_changed(family_folders):
    """GPT-NeoX stores one matrix for queries, keys and values; the bridge computes with copies of its parts."""
    for family in ("gpt-neox", "llama"):
        bridge = boot(family_folders[family])
        bridge.blocks[1].attn.q.weight.data.mul_(1.5)
        if family == "llama":
            with torch.no_grad():
                expected = bridge(TOKENS)
            torch.testing.assert_close(
                logits(library.load_model(bridge, device="cpu")), expected, atol=1e-4, rtol=0
            )
        else:
            with pytest.raises(
                UserError, match="the bridge's logits differ from those of its Hugging Face model's"
            ):
                library.load_model(bridge, device="cpu")


def test_effects_are_those_of_hooks(tuned):
    model, tokenizer = tuned
    run = library.load_model(model, tokenizer=tokenizer, first_layer=1, device="cpu")
    rows = pd.DataFrame({"a": [12, 30, 225], "b": [7, 41, 68], "answer": [19, 71, 293]})
    clean = library.make_prompts(run, "{a}+{b}=", rows)
    corrupt = clean.iloc[[1, 2, 0]]
    some = pd.DataFrame({"layer": [1, 1, 2, 3], "neuron": [0, 41, 17, 79]})
    found = library.exact_effects(run, clean, corrupt, some).set_index(["layer", "neuron"])["effect"]
    ids, other = (torch.tensor(tokenizer(list(table["prompt"]))["input_ids"]) for table in (clean, corrupt))
    answers = torch.tensor(np.stack([clean["answer_token"], corrupt["answer_token"]], axis=1))

    @torch.no_grad()
    def run_with(tokens, layer, change):
        with reading((model.model.layers[layer].mlp.down_proj, change)):
            return model(tokens).logits[:, -1]

    for layer, neuron in some.itertuples(index=False):
        seen = {}
        run_with(other, layer, lambda post, seen=seen: seen.setdefault("post", post))

        def patch(post, neuron=neuron, seen=seen):
            post = post.clone()
            post[:, -1, neuron] = seen["post"][:, -1, neuron]
            return post

        plain = run_with(ids, layer, lambda post: post)
        expected = indirect_effect(plain, run_with(ids, layer, patch), answers).mean()
        assert found[layer, neuron] == pytest.approx(float(expected), abs=1e-5)
    assert found.abs().max() > 1e-3


def test_dtype_device_and_tied_weights(family_folders):
    model, tokenizer = in_memory(family_folders["llama-tied"])
    with torch.inference_mode():
        run = library.load_model(model.bfloat16(), tokenizer=tokenizer, dtype="bfloat16", device="cpu")
    assert run.model.dtype == torch.bfloat16
    assert not run.model.embedding.is_inference()
    run = library.load_model(model.float(), tokenizer=tokenizer, device="cpu")
    assert run.model.embedding.data_ptr() == run.model.unembedding.data_ptr()


class Adapter(nn.Module):
    """A matrix with a low-rank adapter, as in peft."""

    def __init__(self, base_layer):
        super().__init__()
        self.base_layer, self.lora_A = base_layer, nn.Linear(base_layer.in_features, 2, bias=False)


def adapted(model):
    mlp = model.model.layers[0].mlp
    mlp.up_proj = Adapter(mlp.up_proj)


def with_weight(weight):
    def change(model):
        model.model.norm.weight = nn.Parameter(weight, requires_grad=False)

    return change


class Subclass(torch.Tensor):
    """As torchao's."""


def with_config(**changes):
    return lambda model: [setattr(model.config, *change) for change in changes.items()]


def shorter(model):
    del model.model.layers[-1]


def dynamically(model):
    import torch.ao.quantization

    torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, inplace=True)


REFUSED = {
    "adapter": (adapted, "the model in memory has an adapter; merge it into the weights with peft's"),
    "quantised": (
        with_config(quantization_config={"quant_method": "gptq"}),
        r"the model's config: the model is quantised \(quantization_config: gptq\)",
    ),
    "eight bits": (
        with_weight(torch.ones(48, dtype=torch.int8)),
        r"the model in memory: the model is quantised \(weight 'model.norm.weight' has type I8\)",
    ),
    "dynamically": (dynamically, "the model in memory: the model is quantised"),
    "subclass": (with_weight(torch.ones(48).as_subclass(Subclass)), "is a Subclass, not a plain tensor; give"),
    "offloaded": (lambda model: model.to("meta"), r"is not in memory \(device meta\)"),
    "shape": (with_weight(torch.ones(47)), r"weight 'model.norm.weight' has shape \(47,\), but config.json asks"),
    "shorter": (shorter, "weight 'model.layers.3.* is missing"),
    "longer": (with_config(num_hidden_layers=3), "weight 'model.layers.3.* does not belong to a llama model"),
    "other": (lambda model: model.register_parameter("score", nn.Parameter(torch.ones(3))), "'score' does not"),
    "activation": (with_config(hidden_act="relu"), "the model's config: activation 'relu' is not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_folder_would_be_refused_for(tuned, name):
    (model, tokenizer), (spoil, said) = tuned, REFUSED[name]
    spoil(model)
    with pytest.raises(UserError, match=said):
        library.load_model(model, tokenizer=tokenizer, device="cpu")


def test_other_modules_and_wrong_arguments(tuned, tmp_path):
    import transformers

    model, tokenizer = tuned
    bert = transformers.BertConfig(num_hidden_layers=1, hidden_size=24, num_attention_heads=2, intermediate_size=8)
    wrapped = type("PeftModel", (nn.Module,), {"__module__": "peft.peft_model"})()
    for source, options, said in (
        (transformers.BertModel(bert), {"tokenizer": tokenizer}, "config: model_type 'bert' is not supported; "),
        (nn.Linear(2, 3), {"tokenizer": tokenizer}, "source: a module of type Linear is no model of Hugging"),
        (wrapped, {"tokenizer": tokenizer}, "the model in memory has an adapter"),
        (model, {}, r"tokenizer: give that of the model in memory, load_model\(model, tokenizer=tokenizer\)"),
        (model, {"tokenizer": "gpt2"}, "tokenizer: a value of type str is no fast tokenizer"),
        (model, {"tokenizer": tokenizer, "revision": "main"}, "revision: 'main' is given with a model in memory"),
        (tmp_path, {"tokenizer": tokenizer}, "tokenizer: a folder or hub id has its own"),
    ):
        with pytest.raises(UserError, match=said):
            library.load_model(source, device="cpu", **options)


def test_the_tokenizer_is_a_copy(tuned):
    model, tokenizer = tuned
    tokenizer.backend_tokenizer.enable_padding(length=40)
    state = tokenizer.backend_tokenizer.to_str()
    run = library.load_model(model, tokenizer=tokenizer, device="cpu")
    assert tokenizer.backend_tokenizer.to_str() == state
    assert run.tokens(["12+7="]).shape == (1, 5)
    without = copy.deepcopy(tokenizer)
    without.add_bos_token = False
    assert library.load_model(model, tokenizer=without, device="cpu").tokens(["12+7="]).shape == (1, 4)
