"""A model's folder, or GGUF file, as a transformers model and as a `Decoder`. No pickle or code is read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model import families, gguf, proof
from form_invariance.model.decoder import Decoder
from form_invariance.model.folders import weight_files
from form_invariance.model.modules import quantised

OLD_BUFFERS = re.compile(r"\b(rotary_emb\.inv_freq|(attn|attention)\.(masked_)?bias)$")
"""Buffers that old checkpoints store with the weights; transformers computes them."""
_FLOATS = ("F64", "F32", "F16", "BF16")


@contextmanager
def quiet() -> Iterator[None]:
    """Switch off the progress bars and warnings of transformers."""
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


def load(source: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu", prove: bool = False) -> Decoder:
    """Load the model of a folder or a GGUF file.

    Args:
        prove: compare this engine with transformers' model, layer by layer.

    Raises:
        UserError: transformers cannot read the model, or would ignore or invent weights; the engine does not
            compute it; or the GPU is too small.
    """
    model, where = in_transformers(source, dtype, device), _name(source)
    decoder = families.read(model, where, dtype, torch.device(device))
    if prove:
        proof.check(model, decoder, where)
    return decoder


def _name(source: Path) -> str:
    """The name of a model in messages."""
    return f"GGUF file {source}" if source.is_file() else f"model folder {source}"


def in_transformers(source: Path, dtype: torch.dtype, device: str) -> Any:
    """The transformers model of a folder or a GGUF file. Weights that need no conversion are memory-mapped."""
    if source.is_file():
        folder, files, options = source.parent, [source], gguf.options(source)
    else:
        folder, files, options = source, weight_files(source), {"use_safetensors": True}
    if torch.device(device).type != "cpu":
        options["device_map"] = device
    from transformers import AutoModelForCausalLM

    with quiet(), in_one_sentence(f"{_name(source)} cannot be read by transformers"):
        for path in files:
            if path.suffix == ".safetensors":
                _check_types(path)
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **options,
        )
        if source.is_file():
            gguf.check_loaded(source, model)
            # The loaded weights are no longer quantised.
            model.hf_quantizer = None
            del model.config.quantization_config
    _check_info(_name(source), info)
    return model.requires_grad_(False)


def _check_types(file: Path) -> None:
    """Check that all weights of a file are floats of at least 16 bits, because transformers converts others."""
    with safe_open(file, "numpy") as stored:
        for name in stored.keys():  # noqa: SIM118
            kind = stored.get_slice(name).get_dtype()
            if kind not in _FLOATS and not OLD_BUFFERS.search(name):
                raise quantised(str(file), f"weight {name!r} has type {kind}")


def _check_info(where: str, info: dict[str, Any]) -> None:
    """Check that every weight of the model is stored, and every stored weight belongs to the model."""
    wrong = [
        (name, f"has shape {tuple(stored)}, but config.json, or the family's default, asks for {tuple(expected)}")
        for name, stored, expected in sorted(info["mismatched_keys"])
    ]
    wrong += [(name, "is missing") for name in sorted(info["missing_keys"])]
    wrong += [
        (
            name,
            "does not belong to a model of this configuration, so it would be ignored; merge adapters into the "
            "weights, give the model before it was quantised, or correct config.json",
        )
        for name in sorted(info["unexpected_keys"])
        if not OLD_BUFFERS.search(name)
    ]
    if wrong:
        name, what = wrong[0]
        raise UserError(f"{where}: weight {name!r} {what}")


def check_class(folder: Path) -> None:
    """Check, without loading the weights, that the engine reads the class of a folder's model.

    Raises:
        UserError: the engine does not read it.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    where = _name(folder)
    with quiet(), in_one_sentence(f"{where} cannot be read by transformers"), torch.device("meta"):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    families.check(model, where)
