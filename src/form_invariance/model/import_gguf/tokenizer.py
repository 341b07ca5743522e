"""Make the tokenizer of a GGUF file from its vocabulary, and its merges or scores.

transformers can do this, too. But it splits SmolLM2's digits as GPT-2 does, applies merges where Llama 3 takes a
whole token of its vocabulary, and adds a token to a vocabulary without `<|endoftext|>`. Unlike SentencePiece, it
puts Gemma's long runs of spaces together out of short ones, and adds Llama 2's space only to a text that begins
with none.
"""

from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from form_invariance.errors import UserError
from form_invariance.model.files import load_tokenizer
from form_invariance.model.import_gguf.file import GgufFile
from form_invariance.model.import_gguf.sentencepiece import make_sentencepiece

_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens that are found in a text before it is split: special ones, and others."""


@dataclass(frozen=True)
class _Rules:
    """What a value of `tokenizer.ggml.pre` means in llama.cpp."""

    digits: bool = False
    """Every digit is split off before anything else."""
    gpt2: bool = True
    """Texts are split as in GPT-2, and not by the regular expression that transformers has for this value."""
    whole: bool = False
    """A piece of text that is in the vocabulary is one token, whatever the merges are."""
    bos: bool = False
    """Texts begin with BOS if the file does not say whether they do."""


_RULES = {
    "gpt-2": _Rules(),
    "llama-bpe": _Rules(gpt2=False, whole=True, bos=True),
    "qwen2": _Rules(gpt2=False),
    "smollm": _Rules(digits=True),
}


def _rules(file: GgufFile) -> _Rules:
    return _RULES[file.tokenizer("pre")]


def _by_scores(file: GgufFile) -> bool:
    """Whether the tokenizer is SentencePiece's, which GGUF calls `llama`; else it is a byte-level BPE, `gpt2`."""
    return bool(file.tokenizer("model") == "llama")


def _bos(file: GgufFile) -> int | None:
    """The token with which the file wants every text to begin; None if there is no such token."""
    wanted = file.tokenizer("add_bos_token", _by_scores(file) or _rules(file).bos)
    return file.tokenizer("bos_token_id") if wanted else None


def check_kind(file: GgufFile) -> None:
    """Check that the tokenizer is SentencePiece's, or a byte-level BPE that splits texts in a known way.

    Raises:
        UserError: it is neither.
    """
    kind, pre = file.tokenizer("model"), file.tokenizer("pre")
    if not _by_scores(file) and (kind != "gpt2" or pre not in _RULES):
        raise UserError(
            f"{file.path}: its tokenizer is of kind {kind!r} and splits texts as {pre!r}, but only kind 'llama', "
            f"and kind 'gpt2' that splits as {', '.join(_RULES)} can be imported; use the model's Hugging Face "
            "folder instead"
        )
    for key in ("tokens", "token_type", "scores" if _by_scores(file) else "merges"):
        if file.tokenizer(key) is None:
            raise UserError(f"{file.path}: the key tokenizer.ggml.{key} is missing; download the file again")


def _pre_tokenizer(file: GgufFile) -> pre_tokenizers.PreTokenizer:
    """What splits a text into the pieces within which the merges apply."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    rules = _rules(file)
    steps: list[pre_tokenizers.PreTokenizer] = []
    if rules.digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if not rules.gpt2:
        pattern = Regex(GGUF_PRE_TOKENIZER_SPLITS[file.tokenizer("pre")])
        steps.append(pre_tokenizers.Split(pattern, behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rules.gpt2))
    return pre_tokenizers.Sequence(steps)


def _make_byte_level(file: GgufFile) -> Tokenizer:
    """A byte-level BPE without its special and user-defined tokens."""
    vocabulary = {token: index for index, token in enumerate(file.tokenizer("tokens"))}
    pairs = [tuple(merge.split(" ", 1)) for merge in file.tokenizer("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=_rules(file).whole))
    tokenizer.pre_tokenizer = _pre_tokenizer(file)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _make_tokenizer(file: GgufFile) -> Tokenizer:
    tokenizer = make_sentencepiece(file) if _by_scores(file) else _make_byte_level(file)
    tokenizer.add_tokens(
        [
            AddedToken(token, normalized=False, special=kind == _CONTROL)
            for token, kind in zip(file.tokenizer("tokens"), file.tokenizer("token_type"), strict=True)
            if kind in (_CONTROL, _USER_DEFINED)
        ]
    )
    return tokenizer


def write_tokenizer(file: GgufFile, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    from transformers import PreTrainedTokenizerFast

    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {name: file.tokenizer(f"{key}_token_id") for name, key in names.items()}
    tokens = file.tokenizer("tokens")
    PreTrainedTokenizerFast(
        tokenizer_object=_make_tokenizer(file),
        add_bos_token=_bos(file) is not None,
        chat_template=file.fields.get("tokenizer.chat_template"),
        **{name: None if token is None else tokens[token] for name, token in ids.items()},
    ).save_pretrained(folder)


def check_tokenizer(file: GgufFile, folder: Path) -> None:
    """Check that the written tokenizer has the file's tokens.

    Raises:
        UserError: a token differs.
    """
    written = load_tokenizer(folder).tokenizer
    for token, text in enumerate(file.tokenizer("tokens")):
        written_text = written.id_to_token(token)
        if written_text != text:
            raise UserError(
                f"{file.path}: token {token} is {text!r}, but {written_text!r} in the tokenizer.json made of it"
            )
