"""A model's folder, or GGUF file, as a transformers model and as a `Decoder`. No pickle or code is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model import families, proof
from form_invariance.model.decoder import Decoder
from form_invariance.model.sizes import read_config
from form_invariance.model.stored_weights import OLD_BUFFERS, count_weights


@contextmanager
def quiet() -> Iterator[None]:
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


def load(source: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu", prove: bool = False) -> Decoder:
    """Load the model of a folder or a GGUF file.

    Args:
        prove: compare this engine's logits with those of transformers' model.

    Raises:
        UserError: transformers cannot read it, or would ignore or invent weights; the engine does not compute such
            a model; or the GPU is too small.
    """
    where = name_of(source)
    model = in_transformers(source, dtype, device)
    decoder = families.read(model, where, dtype, torch.device(device))
    if prove:
        proof.check(model, decoder, where)
    return decoder


def name_of(source: Path) -> str:
    """The name of a model in messages."""
    return f"GGUF file {source}" if source.is_file() else f"model folder {source}"


def in_transformers(source: Path, dtype: torch.dtype, device: str) -> Any:
    """The transformers model of a folder or a GGUF file, which maps the weights if they need no conversion."""
    where = name_of(source)
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if source.is_file():
        folder, options = source.parent, {**options, "gguf_file": source.name}
    else:
        folder, options = source, {**options, "use_safetensors": True}
        _check_config(source)
        needed = count_weights(source)
        if torch.device(device).type == "cuda":
            check_room(where, needed, dtype, torch.device(device))
    if torch.device(device).type != "cpu":
        options["device_map"] = device
    from transformers import AutoModelForCausalLM

    with quiet(), in_one_sentence(f"{where} cannot be read by transformers"):
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    _check_info(where, info)
    return model.requires_grad_(False)


def check_class(folder: Path) -> None:
    """Check, without loading the weights, that the engine reads the class of a folder's model.

    Raises:
        UserError: it does not.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    where = name_of(folder)
    _check_config(folder)
    with quiet(), in_one_sentence(f"{where} cannot be read by transformers"), torch.device("meta"):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    families.check(model, where)


def _check_config(folder: Path) -> None:
    """Check that config.json asks for weights as they are stored, in the files that are known."""
    raw = read_config(folder)
    if (quantised := raw.get("quantization_config")) is not None:
        refuse_quantised(str(folder / "config.json"), quantised)
    if raw.get("transformers_weights") is not None:
        raise UserError(f"{folder / 'config.json'}: the key transformers_weights is not supported")


def refuse_quantised(where: str, config: Any) -> NoReturn:
    """Refuse a model whose configuration has a quantization_config."""
    method = config.get("quant_method") if isinstance(config, dict) else config
    raise UserError(
        f"{where}: the model is quantised (quantization_config: {method!s:.60}), and quantised weights are not "
        "read; give the unquantised model"
    )


def _check_info(where: str, info: dict[str, Any]) -> None:
    """Check that every weight of the model is stored, and every stored weight belongs to the model."""
    for name, stored, wanted in sorted(info["mismatched_keys"]):
        raise UserError(
            f"{where}: weight {name!r} has shape {tuple(stored)}, but config.json, or the family's default, asks "
            f"for {tuple(wanted)}"
        )
    for name in sorted(info["missing_keys"]):
        raise UserError(f"{where}: weight {name!r} is missing")
    for name in sorted(info["unexpected_keys"]):
        if not OLD_BUFFERS.search(name):
            raise UserError(
                f"{where}: weight {name!r} does not belong to a model of this configuration, so it would be "
                "ignored; merge adapters into the weights, give the model before it was quantised, or correct "
                "config.json"
            )


def check_room(where: str, weights: int, dtype: torch.dtype, device: torch.device) -> None:
    """Check that a GPU has room for a model's weights, before they are read.

    Raises:
        UserError: it has not.
    """
    needed = weights * dtype.itemsize
    free, _ = torch.cuda.mem_get_info(device)
    if needed > free:
        half = "" if dtype.itemsize == 2 else "dtype: bfloat16 (half of that), "
        raise UserError(
            f"{where}: its weights take {needed / 1e9:.1f} GB, but {device} has {free / 1e9:.1f} GB free; "
            f"a model must fit on one GPU: use {half}a larger GPU, or device: cpu"
        )
