from functools import lru_cache
from pathlib import Path

import pytest
import torch
import transformers

from form_invariance.errors import UserError
from form_invariance.model import loading, memory


def test_a_gpu_that_is_too_small_is_one_sentence(tiny_folder, monkeypatch):
    def full(*_, **options):
        # transformers puts each weight there as it reads it.
        assert options["device_map"] == "cuda:0"
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(UserError, match=f"^model folder {tiny_folder} .*: CUDA out of memory. Tried to allocate"):
        loading.load(tiny_folder, device="cuda:0")


def test_weights_of_their_stored_precision_are_pages_of_their_file(family_folders):
    """Such pages are in memory once for all processes."""
    folder = family_folders["llama"]
    model = loading.load(folder)
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = [line.split()[0].split("-") for line in lines if line.endswith(str(folder / "model.safetensors"))]

    def is_mapped(weight):
        return any(int(start, 16) <= weight.data_ptr() < int(end, 16) for start, end in mapped)

    assert not model.embedding.requires_grad
    of_layers = [weight for layer in model.layers for weight in (layer.query, layer.up, layer.down)]
    assert all(map(is_mapped, [model.embedding, model.unembedding, *of_layers]))
    assert not is_mapped(loading.load(folder, dtype=torch.bfloat16).embedding)


def test_a_gpu_takes_a_power_of_two_of_its_free_memory_once(monkeypatch):
    """A little more or less free memory changes nothing."""
    card, free = torch.device("cuda:0"), [2**30, 110 * 2**30, 90 * 2**30, 70 * 2**30]
    monkeypatch.setattr(memory, "_gpu_bytes", lru_cache(memory._gpu_bytes.__wrapped__))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free.pop(), 2**40))
    for _ in range(3):
        memory._gpu_bytes.cache_clear()
        assert memory.working_bytes(card, 1) == 8 * 2**30
    assert memory.working_bytes(card, 1) == 8 * 2**30
    assert memory.working_bytes(card, 2**40) == 2**40
    assert free == [2**30]
