"""Hugging Face's models: modules that read something else, and a folder read by both engines."""

import json
import logging
import shutil
from contextlib import contextmanager

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from form_invariance.errors import UserError
from form_invariance.model import decoder
from form_invariance.model import loading as models
from form_invariance.model.loading import OLD_BUFFERS

INDEX, SHARDS = "model.safetensors.index.json", ["model-1.safetensors", "model-2.safetensors"]
DESCRIPTION = ["config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.4.0.0.json"]
TOKENS = torch.arange(3, 87, 7)[None]


@contextmanager
def reading(*changes):
    """For a while, modules read what functions make of their first argument; changes: (module, function)."""
    handles = [
        module.register_forward_pre_hook(lambda _, given, change=change: (change(given[0]),))
        for module, change in changes
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class HuggingFace:
    """Hugging Face's model with functions of what its down-projections read: the neurons."""

    def __init__(self, folder, down="model.layers.{}.mlp.down_proj"):
        self.model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        layers = range(self.model.config.num_hidden_layers)
        self.readers = [self.model.get_submodule(down.format(layer)) for layer in layers]

    @torch.no_grad()
    def logits(self, tokens, change=lambda layer, post: post):
        """Last-token logits (B, V); `change(layer, neurons (B, T, m))` gives the neurons of each layer."""
        changes = [(one, lambda post, at=layer: change(at, post)) for layer, one in enumerate(self.readers)]
        with reading(*changes):
            return self.model(tokens).logits[:, -1]

    def neurons(self, tokens):
        """All neurons' activations, (layers, B, T, m)."""
        seen = []
        self.logits(tokens, lambda layer, post: seen.append(post.clone()) or post)
        return torch.stack(seen)


def set_at_the_last_token(layer, neuron, value):
    """A function for `logits` that sets a neuron of a layer at the last token, alone, to value (B,)."""

    def change(at, post):
        if at == layer:
            post = post.clone()
            post[:, -1, neuron] = value
        return post

    return change


def read_by_hugging_face(folder):
    """Last logits, and the names of weights that Hugging Face ignores or invents; None if it refuses."""
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    try:
        options = {"attn_implementation": "eager", "output_loading_info": True}
        model, told = AutoModelForCausalLM.from_pretrained(folder, **options)
        with torch.no_grad():
            return model.eval()(TOKENS).logits[:, -1], {*told["unexpected_keys"], *told["missing_keys"]}
    except Exception:
        return None
    finally:
        logging.disable(logging.NOTSET)


def logits_of(folder):
    """Last logits as this package computes them."""
    model = models.load(folder)
    with torch.no_grad():
        return decoder.logits(model, decoder.run_layers(model, decoder.embed(model, TOKENS)))[:, -1]


def compare(folder, *, prove=False):
    """The sentence of a refusal, or nothing; what is not refused has Hugging Face's logits.

    With `prove` the first job of a run, which compares them itself, may refuse as well.
    """
    try:
        if prove:
            models.load(folder, prove=True)
        ours = logits_of(folder)
    except UserError as error:
        return str(error)
    logits, other = read_by_hugging_face(folder)
    assert not {name for name in other if not OLD_BUFFERS.search(name)}, "Hugging Face ignores or invents weights"
    torch.testing.assert_close(ours, logits, atol=1e-4 * float(logits.abs().max()), rtol=0)
    return ""


def write_shards(weights, folder):
    """Store weights as large models are, in two files and an index."""
    place = {name: SHARDS[number % 2] for number, name in enumerate(sorted(weights))}
    for shard in SHARDS:
        save_file({name: weights[name] for name in weights if place[name] == shard}, folder / shard)
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": place}))


def with_all_files(folder, to):
    """A copy of a model with a tokenizer for two versions of transformers, and weights in two files, too."""
    shutil.copytree(folder, to)
    shutil.copy(to / DESCRIPTION[1], to / DESCRIPTION[3])
    options = json.loads((to / DESCRIPTION[2]).read_text())
    (to / DESCRIPTION[2]).write_text(json.dumps({**options, "fast_tokenizer_files": [DESCRIPTION[3]]}))
    weights = load_file(folder / "model.safetensors")
    write_shards({name: weight.bfloat16() for name, weight in weights.items()}, to)
    return to


def rewritten(folder, to, change_config=lambda config: config, change=lambda weights: weights):
    """A copy of a model's folder, without its tokenizer, with another config.json and other weights."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    config = json.loads((folder / "config.json").read_text())
    (to / "config.json").write_text(json.dumps(change_config(config)))
    save_file(change(load_file(folder / "model.safetensors")), to / "model.safetensors")
    return to
