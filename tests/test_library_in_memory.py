"""A model in memory, Hugging Face's or TransformerLens's bridge: its logits, its neurons' effects, refusals."""

import copy
from pathlib import Path

import oracles
import pytest
import torch
import transformers
from accelerate import dispatch_model
from hugging_face import TOKENS
from torch import nn
from transformers import AttentionInterface, AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaMLP

from conftest import FAMILIES
from form_invariance import library
from form_invariance.errors import UserError
from form_invariance.model import decoder, proof, unaltered

DTYPES = torch.float32, torch.float16, torch.bfloat16


def in_memory(folder):
    return AutoModelForCausalLM.from_pretrained(folder).eval(), PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.fixture
def tuned(family_folders):
    """A model whose weights are not those of its folder, and its tokenizer."""
    model, tokenizer = in_memory(family_folders["llama"])
    change(model)
    return model, tokenizer


@torch.no_grad()
def change(model):
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight += 0.05 * torch.randn(weight.shape, generator=generator)


@torch.no_grad()
def logits(model):
    return model(TOKENS).logits


def assert_logits(source, expected, tokenizer=None):
    run = library.load_model(source, tokenizer=tokenizer, device="cpu")
    with torch.no_grad():
        found = decoder.logits(run.model, decoder.run_layers(run.model, decoder.embed(run.model, TOKENS)))
    torch.testing.assert_close(found, expected.float(), atol=1e-4 * float(expected.abs().max()), rtol=0)
    return run


@pytest.mark.parametrize(
    ("family", "dtype"), [*((name, torch.float32) for name in FAMILIES), ("llama", torch.float64)]
)
def test_logits_are_those_of_the_weights_in_memory(family_folders, monkeypatch, family, dtype):
    model, tokenizer = in_memory(family_folders[family])
    change(model.to(dtype))
    monkeypatch.setattr(Path, "open", None)  # nothing is read from disk
    expected = logits(model)
    run = assert_logits(model, expected, tokenizer)
    if dtype == torch.float32:
        own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
        assert run.model.layers[0].down.untyped_storage().data_ptr() in own  # a view
    for prompt in ("12+7=", "print(3)  # "):
        assert [*run.tokens([prompt])[0].tolist()] == tokenizer(prompt)["input_ids"]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_bridge_are_its_own(family_folders, family):
    bridge = oracles.bridge(family_folders[family])
    change(bridge.original_model.get_submodule("lm_head"))
    with torch.no_grad():
        expected = bridge.eval()(TOKENS)
    bridge.train()
    run = assert_logits(bridge, expected)
    assert bridge.training
    assert run.tokens(["12+7="]).tolist() == [bridge.tokenizer("12+7=")["input_ids"]]


def test_a_bridge_whose_own_weights_were_changed_is_read_or_refused(family_folders):
    """GPT-NeoX stores one matrix for queries, keys and values; the bridge computes with copies of its parts."""
    changed = {family: oracles.bridge(family_folders[family]) for family in ("gpt-neox", "llama")}
    for bridge in changed.values():
        bridge.blocks[1].attn.q.weight.data.mul_(1.5)
    with torch.no_grad():
        expected = changed["llama"](TOKENS)
    assert_logits(changed["llama"], expected)
    with pytest.raises(UserError, match="computes what this engine does not"):
        library.load_model(changed["gpt-neox"], device="cpu")


def test_dtype_device_and_tied_weights(family_folders):
    model, tokenizer = in_memory(family_folders["llama-tied"])
    with torch.inference_mode():
        run = library.load_model(model.bfloat16(), tokenizer=tokenizer, dtype="bfloat16", device="cpu")
    assert run.model.dtype == torch.bfloat16
    assert not run.model.embedding.is_inference()
    run = library.load_model(model.float(), tokenizer=tokenizer, device="cpu")
    assert run.model.embedding.data_ptr() == run.model.unembedding.data_ptr()
    run = library.load_model(model, tokenizer=tokenizer, dtype="bfloat16", device="cpu")
    assert run.model.dtype == torch.bfloat16


def each_layer(part, name, value):
    return lambda model: [setattr(layer.get_submodule(part), name, value) for layer in model.model.layers]


CHANGED = {
    "rope_theta": ("llama", lambda model: model.config.rope_parameters.update(rope_theta=9.0)),
    "final_logit_softcapping": ("gemma2", lambda model: setattr(model.config, "final_logit_softcapping", 1.5)),
    "act_fn": ("llama", each_layer("mlp", "act_fn", nn.GELU("tanh"))),
    "scaling": ("llama", each_layer("self_attn", "scaling", 0.9)),
    "inv_freq": ("llama", lambda model: model.model.rotary_emb.inv_freq.mul_(0.4)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_model_that_was_changed_after_it_was_built_has_its_logits(family_folders, name):
    """Its modules count, not its configuration."""
    family, alter = CHANGED[name]
    model, tokenizer = in_memory(family_folders[family])
    before = logits(model)
    with torch.no_grad():
        alter(model)
    expected = logits(model)
    assert_logits(model, expected, tokenizer)
    assert torch.equal(before, expected) == (name == "rope_theta")


DIFFERENT = {
    "mlp": r"\.1\.mlp \(LlamaMLP\) computes what this engine does not: its output differs by 0\.1",
    "self_attn": r"\.1\.self_attn \(LlamaAttention\) computes what",
    "": r"\.1 \(LlamaDecoderLayer\) computes what",
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", DIFFERENT)
def test_a_model_that_computes_something_else_is_refused(tuned, monkeypatch, part, dtype):
    """A part of a layer gives nine tenths of what it gave, in a hook that was overlooked."""
    model, tokenizer = tuned
    monkeypatch.setattr(unaltered, "check", lambda *_: None)

    def less(module, given, made):
        return made * 0.9 if isinstance(made, torch.Tensor) else (made[0] * 0.9, *made[1:])

    model.to(dtype).model.layers[1].get_submodule(part).register_forward_hook(less)
    model.train()
    with pytest.raises(UserError, match=DIFFERENT[part]) as caught:
        library.load_model(model, tokenizer=tokenizer, device="cpu")
    assert "\n" not in str(caught.value)
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_rounding_is_a_quarter_of_the_proofs_limit(family_folders, monkeypatch, family, dtype):
    monkeypatch.setattr(proof, "_LAYER", {key: limit / 4 for key, limit in proof._LAYER.items()})
    model, tokenizer = in_memory(family_folders[family])
    library.load_model(model.to(dtype), tokenizer=tokenizer, device="cpu")


@pytest.mark.parametrize("whole", [True, False])
def test_a_compiled_model_has_its_logits(tuned, whole):
    model, tokenizer = tuned
    expected = logits(model)
    if whole:
        model = torch.compile(model)
    else:
        model.model.layers[1] = torch.compile(model.model.layers[1])
    assert_logits(model, expected, tokenizer)


def on_one_token(module, given, made):
    """A hook that acts only on texts with token 5."""
    return made * (1 + (given[0] == 5).any())


class Late(LlamaMLP):
    def forward(self, x):
        return super().forward(x) * torch.where(torch.arange(x.shape[1]) < 600, 1, 2)[:, None]


ALTERED = [
    (lambda m: m.model.embed_tokens.register_forward_hook(on_one_token), "embed_tokens .* a forward hook"),
    (lambda m: m.model.layers[1].mlp.register_forward_pre_hook(print), r"1\.mlp .* a forward pre-hook"),
    (lambda m: m.register_forward_hook(print), r"memory: \(LlamaForCausalLM\) has a forward hook"),
    (lambda m: nn.utils.weight_norm(m.model.embed_tokens), "embed_tokens .* a forward pre-hook"),
    (lambda m: nn.utils.parametrizations.spectral_norm(m.model.embed_tokens), "tokens .* has a parametrization"),
    (lambda m: setattr(m.model.layers[2], "forward", m.model.layers[2].forward), r"s\.2 .* a replaced forward"),
    (lambda m: setattr(m.model.layers[2].mlp, "__class__", Late), r"2\.mlp \(Late\) has code of test_library"),
    (lambda m: m.set_attn_implementation("of_user"), "attention is the user's 'of_user'"),
]


@pytest.mark.parametrize(("alter", "said"), ALTERED)
def test_code_of_the_user_is_refused_by_looking_for_it(tuned, alter, said):
    """On other texts it may do what the text of the proof does not show."""
    model, tokenizer = tuned
    AttentionInterface.register("of_user", lambda *args, **options: None)
    alter(model)
    with pytest.raises(UserError, match=said) as caught:
        library.load_model(model, tokenizer=tokenizer, device="cpu")
    assert "\n" not in str(caught.value)


def test_hooks_of_a_bridge_of_all_modules_and_of_libraries(tuned, family_folders):
    model, tokenizer = tuned
    bridge = oracles.bridge(family_folders["llama"])
    handle = nn.modules.module.register_module_forward_hook(print)
    try:
        with pytest.raises(UserError, match="a global forward hook in every module"):
            library.load_model(model, tokenizer=tokenizer, device="cpu")
    finally:
        handle.remove()
    bridge.run_with_cache(TOKENS)
    library.load_model(bridge, device="cpu")
    bridge.add_hook("blocks.1.hook_mlp_out", lambda value, hook: None)
    with pytest.raises(UserError, match=r"hook_out \(HookPoint\) has a forward hook"):
        library.load_model(bridge, device="cpu")
    model(TOKENS, output_hidden_states=True)
    dispatch_model(model, {"": "cpu"}, main_device="cpu", force_hooks=True)
    assert "forward" in vars(model.lm_head)
    assert_logits(model, logits(model), tokenizer)


SAME_MODULES = {
    "GraniteConfig": {"attention_multiplier": 0.3},
    "SmolLM3Config": {"no_rope_layer_interval": 2},
    "Olmo3Config": {},
    "StableLmConfig": {"partial_rotary_factor": 0.5},
    "GemmaConfig": {},
    "GPTBigCodeConfig": {},
}


def of_class(name, settings, vocabulary=64):
    torch.manual_seed(0)
    sizes = {"vocab_size": vocabulary, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 4}
    sizes |= {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.15}
    sizes |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None, "tie_word_embeddings": False}
    return AutoModelForCausalLM.from_config(getattr(transformers, name)(**sizes, **settings)).eval()


@pytest.mark.parametrize("name", SAME_MODULES)
def test_classes_with_llamas_modules_are_read(family_folders, tmp_path, name):
    """One class has GPT-2's. They are read in memory and from a folder; the source names none of them."""
    tokenizer = in_memory(family_folders["llama"])[1]
    model = of_class(name, SAME_MODULES[name], len(tokenizer))
    change(model)
    expected = logits(model)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert_logits(model, expected, tokenizer)
    assert_logits(tmp_path, expected)


def other(name, **settings):
    return lambda _: of_class(name, settings)


SCALED = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1}
EIGHT_BITS = nn.Parameter(torch.ones(48, dtype=torch.int8), requires_grad=False)
REFUSED = [
    (lambda _: nn.Linear(2, 3), "source: a module of type Linear is neither a transformers model"),
    # As in peft.
    (
        lambda model: setattr(model.model.layers[0].mlp.up_proj, "base_layer", None),
        r"the model in memory has an adapter \(model.layers.0.mlp.up_proj\); merge",
    ),
    (lambda model: setattr(model.config, "quantization_config", {"quant_method": "x"}), "the model is quantised"),
    (lambda model: setattr(model.model.norm, "weight", EIGHT_BITS), "quantised .* has type torch.int8"),
    (lambda model: model.to("meta"), r"is not in memory \(device meta\)"),
    (other("GraniteConfig", residual_multiplier=0.22), "has residual_multiplier 0.22, which is not"),
    (other("MixtralConfig"), r"model\.layers\.0\.mlp \(MixtralSparseMoeBlock\) has no up_proj"),
    (other("HeliumConfig"), r"model\.layers\.0\.self_attn \(HeliumAttention\) computes what"),
    # Both attend as Llama does at first: up to token 24, and within a window of 16.
    (
        other("Ministral3Config", rope_parameters={**SCALED, "original_max_position_embeddings": 24}),
        r"0\.self_attn \(Ministral3Attention\) computes what",
    ),
    (other("DogeConfig", keep_window_size=16), r"0\.self_attn \(DogeAttention\) has A, which is not supported"),
    (other("NemotronConfig"), "has the activation ReLUSquaredActivation"),
]


@pytest.mark.parametrize(("spoil", "said"), REFUSED)
def test_models_that_are_refused(tuned, spoil, said):
    model, tokenizer = tuned
    with pytest.raises(UserError, match=said) as caught:
        library.load_model(spoil(model) or model, tokenizer=tokenizer, device="cpu")
    assert "\n" not in str(caught.value)


def test_wrong_arguments_are_refused(tuned, tmp_path):
    model, tokenizer = tuned
    for source, options, said in (
        (model, {}, "tokenizer: a model in memory needs its tokenizer"),
        (model, {"tokenizer": "gpt2"}, "tokenizer: a value of type str is not a fast tokenizer"),
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
