"""Replay against two other ways to patch many neurons at once, on a small model with random weights.

    python tests/bench/rivals.py

One CPU thread, one prompt, first late layer (where replay has most to compute), batches of three sizes:
- batched hooks: TransformerLens runs the whole prompt, one row of the batch a neuron;
- cached last token: Hugging Face runs the last token alone from a repeated key/value cache, one row a neuron.
"""

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM, DynamicCache

from form_invariance.bench.random_models import SHAPES, write_random_model
from form_invariance.model.indirect_effect import indirect_effect
from form_invariance.model.loading import load
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.patching.compute import patch_neurons

LENGTHS = (5, 27)
REPLAYED, PATCHED = 1024, 256
"""Neurons that replay patches, and how many of them the other ways patch."""
BATCHES = (16, 64, 256)
REPEATS = 3
ANSWERS = torch.tensor([11, 12])


def effects(patched: Tensor, clean: Tensor) -> Tensor:
    """Indirect effects from logits of the last token, patched (neurons, V) and clean (1, V)."""
    change = patched.log_softmax(-1)[:, ANSWERS] - clean.log_softmax(-1)[:, ANSWERS]
    return indirect_effect(change[:, 1], change[:, 0])


def batched_hooks(bridge, tokens: Tensor, layer: int, values: Tensor, batch: int) -> Tensor:
    """Row i of a batch has the value of its own neuron at the last token."""
    found = []
    for start in range(0, len(values), batch):
        rows = torch.arange(min(batch, len(values) - start))

        def patch(activation: Tensor, hook: object, rows: Tensor = rows, start: int = start) -> Tensor:
            activation[rows, -1, start + rows] = values[start + rows]
            return activation

        hooks = [(f"blocks.{layer}.mlp.hook_post", patch)]
        found.append(bridge.run_with_hooks(tokens.expand(len(rows), -1).clone(), fwd_hooks=hooks)[:, -1])
    return effects(torch.cat(found), bridge(tokens)[:, -1])


def cached_last_token(model, tokens: Tensor, layer: int, values: Tensor, batch: int) -> Tensor:
    """The same, with the beginning of the prompt in a cache that is repeated for each row."""
    cache = DynamicCache(config=model.config)
    model(tokens[:, :-1], past_key_values=cache, logits_to_keep=1)
    down, found = model.model.layers[layer].mlp.down_proj, []
    cache.batch_repeat_interleave(batch)
    for start in range(0, len(values), batch):
        rows = torch.arange(batch)

        def patch(module: object, given: tuple[Tensor], rows: Tensor = rows, start: int = start) -> None:
            given[0][rows, -1, start + rows] = values[start + rows]

        handle = down.register_forward_pre_hook(patch)
        found.append(model(tokens[:, -1:].expand(batch, 1), past_key_values=cache).logits[:, -1])
        handle.remove()
        cache.crop(-1)
    return effects(torch.cat(found), model(tokens, logits_to_keep=1).logits[:, -1])


def best(run: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """CPU seconds a neuron of the fastest run (other work on the machine counts less so), and the effects."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        found = run()
        seconds.append(time.process_time() - start)
    return min(seconds) / len(found), found


def compare(ours, bridge, theirs, length: int) -> None:
    """Measure the three ways on a prompt of the given length, and print how each compares with replay."""
    layer = ours.config.n_layers // 2
    rng = torch.Generator().manual_seed(length)
    tokens, corrupt = (torch.randint(0, 1000, (1, length), generator=rng) for _ in range(2))
    given = last_token_neurons(ours, corrupt, layer)[0][:, :REPLAYED]
    cache, chosen, values = build_cache(ours, tokens, layer), torch.arange(REPLAYED), given[0, :PATCHED]
    replayed, reference = best(lambda: patch_neurons(ours, cache, layer, chosen, given, ANSWERS[None])[0])
    print(f"{length:3} tokens  replay: {1e3 * replayed:.2f} ms a neuron", flush=True)
    for rival, model in ((batched_hooks, bridge), (cached_last_token, theirs)):
        for batch in BATCHES:
            seconds, found = best(lambda r=rival, m=model, b=batch: r(m, tokens, layer, values, b))
            difference = (found - reference[:PATCHED]).abs().max().item()
            print(
                f"{length:3} tokens  {rival.__name__}, {batch} in a batch: {1e3 * seconds:.2f} ms a neuron, "
                f"{seconds / replayed:.1f} times replay's; largest difference {difference:.0e}",
                flush=True,
            )
            assert difference < 1e-5


@torch.no_grad()
def main() -> None:
    """Write the model, read it three times, compare."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        write_random_model(Path(name), SHAPES["small"])
        ours = load(Path(name))
        theirs = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
        bridge = TransformerBridge.boot_transformers(name, dtype=torch.float32, device="cpu")
    for length in LENGTHS:
        compare(ours, bridge, theirs, length)


if __name__ == "__main__":
    main()
