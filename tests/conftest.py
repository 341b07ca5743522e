"""Small models that the tests write: real architectures, random weights."""

from pathlib import Path

import pytest
import torch

from form_invariance import models
from form_invariance.embedded.problems import read_templates
from form_invariance.embedded.tokenizer import build_tokenizer
from form_invariance.model_files import PACKAGED, load_tokenizer

ROOT = Path(__file__).parent.parent
FAMILIES = ("llama", "llama-tied", "mistral", "qwen2", "qwen3")


def _configuration(family: str, vocabulary: int):
    from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

    common = {
        "vocab_size": vocabulary,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "initializer_range": 0.15,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": None,
    }
    scaled = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }
    return {
        "llama": lambda: LlamaConfig(**common, rope_parameters=scaled),
        "llama-tied": lambda: LlamaConfig(**{**common, "num_key_value_heads": 6, "tie_word_embeddings": True}),
        "mistral": lambda: MistralConfig(**common),
        "qwen2": lambda: Qwen2Config(**common),
        "qwen3": lambda: Qwen3Config(**common, head_dim=16),
    }[family]()


def write_model(folder: Path, family: str, tokenizer) -> Path:
    """Write a Hugging Face folder with random weights, norms and biases included."""
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(_configuration(family, tokenizer.get_vocab_size()))
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data = 1 + 0.3 * torch.randn_like(parameter)
        if name.endswith("bias"):
            parameter.data = 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin_of_text|>")
    wrapped.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def templates():
    return read_templates(ROOT / "config/config.yaml")


@pytest.fixture(scope="session")
def raw_tokenizer(templates):
    return build_tokenizer(templates.all())


@pytest.fixture(scope="session")
def family_folders(tmp_path_factory, raw_tokenizer):
    base = tmp_path_factory.mktemp("models")
    return {family: write_model(base / family, family, raw_tokenizer) for family in FAMILIES}


@pytest.fixture(scope="session")
def tiny_folder(family_folders):
    return family_folders["llama"]


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    """Decoder and tokenizer of the small Llama with grouped-query attention."""
    return models.load(tiny_folder), load_tokenizer(tiny_folder)


@pytest.fixture(scope="session")
def packaged():
    """Decoder, tokenizer and folder of the models that come with the package."""
    names = ("embedded-shared", "embedded-separate")
    return {n: (models.load(PACKAGED / n), load_tokenizer(PACKAGED / n), PACKAGED / n) for n in names}
