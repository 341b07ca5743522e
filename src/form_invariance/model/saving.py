"""Write a model as an ordinary Hugging Face folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from form_invariance.tables.files import write_atomically, write_text

LONGEST_PROMPT = 128


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    opening: str,
    ending: str,
) -> None:
    """Write config.json, the tokenizer and, last, the weights. Each file appears whole or not at all.

    Args:
        opening: the tokenizer's BOS token.
        ending: its EOS token.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": opening,
        "eos_token": ending,
        "clean_up_tokenization_spaces": False,
        "model_max_length": LONGEST_PROMPT,
    }
    for name, content in (("config.json", config), ("tokenizer_config.json", options)):
        write_text(folder / name, json.dumps(content, indent=2) + "\n")
    write_atomically(folder / "tokenizer.json", lambda to: tokenizer.save(str(to)))
    plain = {name: tensor.detach().contiguous() for name, tensor in weights.items()}
    write_atomically(folder / "model.safetensors", lambda to: save_file(plain, to, metadata={"format": "pt"}))
