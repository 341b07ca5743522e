"""The model and the tokenizer that a command's options name."""

from pathlib import Path

import torch

from form_invariance.errors import UserError
from form_invariance.experiment.options import ModelOptions
from form_invariance.model import digests, in_memory, tokenizers
from form_invariance.model import loading as models
from form_invariance.model.decoder import Decoder
from form_invariance.model.files import resolve
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.tables import lineage

DTYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16}
"""The type of the weights, by the value of --dtype; tf32 is a way to multiply float32."""


def device_of(name: str) -> str:
    """The torch device that --device means on this machine.

    Raises:
        UserError: this machine cannot use the device.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        tried = torch.zeros(1, device=name)
        tried.item()  # some devices have tensors without values
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--device: {name!r} cannot be used here ({reason}); try cpu") from None
    return "cpu" if tried.is_cpu else name


def dtype_of(name: str) -> torch.dtype:
    """The type of the weights that --dtype means.

    Raises:
        UserError: the name is not in `DTYPES`.
    """
    if name not in DTYPES:
        raise UserError(f"dtype: {name!r} must be one of {', '.join(DTYPES)}")
    return DTYPES[name]


def load_decoder(source: Path | torch.nn.Module, dtype: str, device: str, *, prove: bool = False) -> Decoder:
    """Load a folder's model, or take one in memory, with the precision and device that options name.

    Args:
        prove: compare the logits with transformers'. For a model in memory this is always done.
    """
    if isinstance(source, Path):
        model = models.load(source, dtype=dtype_of(dtype), device=device_of(device), prove=prove)
    else:
        model = in_memory.read(source, dtype_of(dtype), device_of(device))
    model.tf32 = dtype == "tf32"
    return model


def _located(options: ModelOptions) -> tuple[Path, Path]:
    """The model's source, and its folder as `folder_of`."""
    source, record = resolve(options.model, options.revision), options.model_files
    return source, tokenizers.imported_folder(record) if source.is_file() and record else source


def folder_of(options: ModelOptions) -> Path:
    """The model's folder. For a GGUF file: the imported folder next to --model-files, else the file itself."""
    return _located(options)[1]


def load_model(options: ModelOptions) -> tuple[Decoder, PromptTokenizer]:
    """The model and tokenizer that the options name, after its files are checked against --model-files."""
    (source, folder), record = _located(options), options.model_files
    if record:
        digests.check(folder, record, source if source.is_file() else None)
    elif lineage.is_running():
        lineage.note(lineage.WEIGHTS, digests.identity(source))
    model = load_decoder(folder, options.dtype, options.device)
    torch.backends.cuda.matmul.allow_tf32 = model.tf32
    if record and tokenizers.kept_path(record).exists():
        return model, tokenizers.load_kept(folder, record)
    return model, tokenizers.load_tokenizer(folder)
