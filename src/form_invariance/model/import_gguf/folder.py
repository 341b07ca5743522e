"""Write the model of a GGUF file as a Hugging Face folder, and check it."""

import glob
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model import loading
from form_invariance.model.families import decoder_config
from form_invariance.model.import_gguf.config import model_config
from form_invariance.model.import_gguf.file import GgufFile, read_file
from form_invariance.model.import_gguf.tokenizer import check_kind, check_tokenizer, write_tokenizer
from form_invariance.model.import_gguf.weights import check_weights, places, read_weights


@contextmanager
def _appearing_whole(output: Path) -> Iterator[Path]:
    """A folder beside `output`, which gets the name `output` at the end, or is deleted if an error comes before.

    A killed writer leaves its folder; the next writer of `output` deletes it.

    Raises:
        UserError: `output` cannot be written.
    """
    output = output.resolve()
    part = output.with_name(f".{output.name}.{secrets.token_hex(4)}.part")
    try:
        for leftover in output.parent.glob(f".{glob.escape(output.name)}.????????.part"):
            shutil.rmtree(leftover)
        part.mkdir(parents=True)
        yield part
        part.replace(output)
    except OSError as error:
        raise UserError(f"--output: {output} cannot be written: {error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers shows neither progress bars nor warnings."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _write_model(file: GgufFile, settings: dict[str, Any], folder: Path) -> None:
    """Write config.json and the weights, float32: a type of 16 bits would round most of them."""
    from transformers import AutoConfig, AutoModelForCausalLM

    refused = f"{file.path} cannot be imported"
    with in_one_sentence(refused), torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32)
    sizes = decoder_config(settings, str(file.path))
    names = places(file, [name for name, _ in model.named_parameters()], sizes.n_layers)
    with in_one_sentence(refused):
        weights = {name: torch.from_numpy(values) for name, values in read_weights(file, names, sizes).items()}
        if model.config.tie_word_embeddings:
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        model.load_state_dict(weights, assign=True)
        model.save_pretrained(folder)


def write_folder(path: Path, output: Path) -> None:
    """Write the model and the tokenizer of a GGUF file as a Hugging Face folder, and check it.

    Args:
        path: the GGUF file.
        output: the folder, new or empty. It appears whole, after the checks, or not at all.

    Raises:
        UserError: the file cannot be read or imported, the folder cannot be written, or a check fails.
    """
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UserError(f"--output: {output} exists and is not an empty folder; delete it or name another folder")
    file = read_file(path)
    settings = model_config(file)
    check_kind(file)
    with _quiet(), _appearing_whole(output) as folder:
        with in_one_sentence(f"{path} cannot be imported"):
            write_tokenizer(file, folder)
        _write_model(file, settings, folder)
        loading.check(folder)
        check_weights(file, folder)
        check_tokenizer(file, folder)
    print(f"{output}: {len(file.tensors)} weights, each equal to its tensor in {path} to the bit")
