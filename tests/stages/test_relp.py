"""Relevance patching against its rules by hand, and against the same rules put into Hugging Face's model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from test_patching import PROMPTS, prepared
from torch.nn.functional import silu

from form_invariance.model import loading
from form_invariance.model.decoder import embed, logits, normalise, run_layers
from form_invariance.model.relevance import as_factor
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.attribution.compute import attribute, attribute_relevance, effect_gradient

FIRST = 2


def test_the_rules_by_hand(tiny):
    """Without attention, what a neuron writes goes through an MLP and two norms, which are linear by the rules."""
    model, tokenizer = tiny
    tokens, _, answers = prepared(tokenizer, "symbolic")
    last = model.config.n_layers - 1
    quiet = replace(model.layers[last], output=torch.zeros_like(model.layers[last].output))
    model = replace(model, layers=[*model.layers[:last], quiet])
    cache = build_cache(model, tokens, last - 1)
    found = effect_gradient(replace(model, relevance=True), cache, answers)
    eps = model.config.norm_epsilon
    weights = {name: getattr(quiet, name).double().numpy() for name in ("gate", "up", "down")}
    inner, final = quiet.mlp_norm.weight.double().numpy(), model.final_norm.weight.double().numpy()
    for prompt, (right, wrong) in enumerate(answers.tolist()):
        before, after = (cache.residual[place, prompt].double().numpy() for place in (1, 2))
        scale = np.mean(before**2 + eps) ** -0.5
        gate, up = (weights[name] @ (before * scale * inner) for name in ("gate", "up"))
        sigmoid = 1 / (1 + np.exp(-gate))  # silu(x) / x
        halves = (up * sigmoid)[:, None] * weights["gate"] + (gate * sigmoid)[:, None] * weights["up"]
        through = np.eye(len(before)) + weights["down"] @ (0.5 * halves) * (scale * inner)
        wanted = (model.unembedding[wrong] - model.unembedding[right]).double().numpy()
        back = 0.5 * wanted * final * np.mean(after**2 + eps) ** -0.5
        for late, written in ((0, back @ through), (1, back)):
            expected = written @ model.layers[last - 1 + late].down.double().numpy()
            assert np.abs(expected).max() > 1e-3
            np.testing.assert_allclose(found[late, prompt], expected, atol=1e-5, rtol=1e-5)


def with_rules(model):
    """A Llama of transformers with the rules in its modules, as RelP's authors put them into theirs."""

    def constant_scale(self, x):
        return self.weight * x * (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).rsqrt().detach()

    def halves(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        active = gate * (silu(gate) / gate).detach()
        return self.down_proj(self.probe(0.5 * (active * up.detach() + active.detach() * up)))

    for module in model.modules():
        if isinstance(module, transformers.models.llama.modeling_llama.LlamaRMSNorm):
            module.forward = constant_scale.__get__(module)
        if isinstance(module, transformers.models.llama.modeling_llama.LlamaMLP):
            module.probe = torch.nn.Identity()
            module.forward = halves.__get__(module)
    return model


@pytest.mark.parametrize("name", PROMPTS)
def test_the_same_rules_in_hugging_face_give_the_same_coefficients(tiny, tiny_folder, name):
    model, tokenizer = tiny
    tokens, corrupt, answers = prepared(tokenizer, name)
    given = last_token_neurons(model, corrupt, FIRST)
    reference = with_rules(transformers.AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32))
    kept = {}
    for layer in range(FIRST, model.config.n_layers):

        def keep(module, inputs, output, layer=layer):
            kept[layer] = output
            output.retain_grad()

        reference.model.layers[layer].mlp.probe.register_forward_hook(keep)
    picked = reference(tokens).logits[:, -1].gather(1, answers)
    (0.5 * (picked[:, 1] - picked[:, 0]).sum()).backward()
    found = attribute_relevance(model, tokens, given, answers, FIRST)
    for layer, post in kept.items():
        change = given[layer - FIRST] - post[:, -1].detach()
        expected = change * post.grad[:, -1]
        assert expected.abs().max() > 1e-4
        torch.testing.assert_close(found[layer - FIRST], expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "olmo2", "gpt-neox"])
def test_the_rules_change_gradients_and_no_values(family_folders, family):
    model = loading.load(family_folders[family])
    ruled = replace(model, relevance=True)
    tokens = torch.arange(1, 13).view(2, 6)
    plain, same = (logits(one, run_layers(one, embed(one, tokens))[:, -1]) for one in (model, ruled))
    torch.testing.assert_close(plain, same, atol=2e-5, rtol=1e-5)
    given = last_token_neurons(model, tokens.flip(0), FIRST)
    answers = torch.tensor([[1, 2], [3, 4]])
    both = [method(model, tokens, given, answers, FIRST) for method in (attribute, attribute_relevance)]
    assert not torch.allclose(*both, rtol=0.01)


def test_a_neuron_at_zero_has_the_limit_of_its_factor():
    x = torch.tensor([0.0, 1e-4], requires_grad=True)
    as_factor(silu, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([0.5, 0.5]), atol=1e-4, rtol=0)


def test_the_scale_of_layer_norm_is_a_constant_and_its_mean_is_not(family_folders):
    model = replace(loading.load(family_folders["gpt2"]), relevance=True)
    norm = model.final_norm
    x = torch.randn(model.config.d_model, generator=torch.Generator().manual_seed(0), requires_grad=True)
    out = normalise(model, x, norm)
    (found,) = torch.autograd.grad(out[3], x)
    scale = norm.weight[3] / (x.detach().var(correction=0) + model.config.norm_epsilon).sqrt()
    expected = scale * (torch.eye(len(x))[3] - 1 / len(x))
    torch.testing.assert_close(found, expected)
