"""Llama 3's own tokenizer, from the tokenizer.model that Meta gives with the weights."""

import base64
import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer

_USUAL = Path(__file__).parents[3] / "shared/llama3-tokenizer/tokenizer.model"
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_special_token_{n}|>" for n in range(254))]


def read(path: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.model, which opens every text with BOS where special tokens are asked for."""
    from transformers.convert_slow_tokenizer import TikTokenConverter

    lines = [line.split() for line in path.read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    converter = TikTokenConverter(vocab_file=str(path), extra_special_tokens=SPECIAL)
    converter.load_tiktoken_bpe = lambda path: ranks
    return converter.converted()


def tokenizer() -> Tokenizer:
    """The real tokenizer; the test is skipped where its file is absent."""
    path = Path(os.environ.get("LLAMA3_TOKENIZER", _USUAL))
    if not path.exists():
        pytest.skip("the Llama-3 tokenizer is not here; name its tokenizer.model in LLAMA3_TOKENIZER")
    return read(path)
