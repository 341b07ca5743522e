"""A model's tokenizer, as transformers' AutoTokenizer loads it. Only AutoTokenizer imports torch."""

import hashlib
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model import gguf
from form_invariance.model.files import PACKAGED
from form_invariance.model.sizes import read_sizes
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.tables.files import provenance_of


def kept_path(record: Path) -> Path:
    """Where a model's first job saves the tokenizer, from the path of the table model_files."""
    return record.with_name("tokenizer.json")


def imported_folder(record: Path) -> Path:
    """Where a model's first job saves the model of a GGUF file as a folder."""
    return record.with_name("imported")


def load_kept(folder: Path, record: Path) -> PromptTokenizer:
    """The tokenizer that the first job saved: `load_tokenizer`'s, in half of the time and memory.

    Raises:
        UserError: the file has changed since.
    """
    provenance, path = provenance_of(record), kept_path(record)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != provenance.get("tokenizer_sha256"):
        raise UserError(
            f"{path} is not the tokenizer that {record} was made with; delete both and run snakemake again, which "
            "remakes all results of this model"
        )
    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.encode_special_tokens = bool(provenance.get("split_special_tokens"))
    return _of_backend(tokenizer, read_sizes(folder).vocabulary, str(folder / "tokenizer.json"))


def load_tokenizer(source: Path) -> PromptTokenizer:
    """The tokenizer of a folder or a GGUF file, and its BOS token if the model uses one.

    Raises:
        UserError: a file is missing or damaged, or the model does not have its BOS token.
    """
    if source.is_file():
        return of_object(gguf.load_tokenizer(source), None, f"the tokenizer of {source}")
    path = source / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"model folder {source} has no tokenizer.json; save it with transformers' save_pretrained")
    vocabulary = read_sizes(source).vocabulary
    with in_one_sentence(f"{path} cannot be read as a tokenizer"):
        if source.parent == PACKAGED:  # AutoTokenizer gives the same, but takes seconds to import
            return _of_backend(Tokenizer.from_file(str(path)), vocabulary, str(path))
        from transformers import AutoTokenizer

        from form_invariance.model.loading import quiet

        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
    return _of_backend(_backend(tokenizer), vocabulary, str(path))


def _backend(tokenizer: object) -> Tokenizer:
    """The Rust tokenizer inside a tokenizer of transformers."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise UserError(
            f"tokenizer: a value of type {type(tokenizer).__name__} is not a fast tokenizer of Hugging Face's "
            "transformers; give AutoTokenizer.from_pretrained(...)"
        )
    return backend


def of_object(tokenizer: object, vocabulary: int | None, name: str = "the tokenizer") -> PromptTokenizer:
    """A copy of Hugging Face's tokenizer.

    Raises:
        UserError: it is not a fast tokenizer (one written in Rust), or the model does not have its BOS token.
    """
    backend = _backend(tokenizer)
    copy = Tokenizer.from_str(backend.to_str())
    copy.encode_special_tokens = backend.encode_special_tokens
    return _of_backend(copy, vocabulary, name)


def _of_backend(tokenizer: Tokenizer, vocabulary: int | None, name: str) -> PromptTokenizer:
    """Switch off BPE dropout, truncation and padding; transformers switches off the last two for each text."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if isinstance(tokenizer.model, BPE):
        tokenizer.model.dropout = None
    bos = _opening(tokenizer, name)
    if bos is not None and vocabulary is not None and bos >= vocabulary:
        raise UserError(
            f"{name}: the BOS token is {bos}, but the model has {vocabulary} tokens; "
            "take tokenizer.json and config.json from one model"
        )
    return PromptTokenizer(tokenizer, bos, vocabulary, name)


def _opening(tokenizer: Tokenizer, name: str) -> int | None:
    """The token that the tokenizer adds before a text. A token added after the text would end the prompt."""
    with in_one_sentence(f"{name} cannot encode '0'"):
        whole, bare = (tokenizer.encode("0", add_special_tokens=special).ids for special in (True, False))
    starts = (start for start in range(len(whole)) if whole[start : start + len(bare)] == bare)
    opening = whole[: next(starts, 0)]
    if len(opening) > 1:
        raise UserError(
            f"{name} adds {len(opening)} tokens before every text, {opening}; only a BOS token is supported"
        )
    return opening[0] if opening else None
