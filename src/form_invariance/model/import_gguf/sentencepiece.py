"""Make a SentencePiece tokenizer of a GGUF file: byte-pair encoding by the scores of tokens, with byte fallback.

SentencePiece joins the two neighbours whose token has the best score, whatever the two are. So every way to cut a
token into two tokens is a merge, and the merges are sorted by the score of what they make.
"""

from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers

from form_invariance.model.import_gguf.file import GgufFile

_NORMAL = 1
_SPACE = "▁"
"""A space within a token."""


def _merges(tokens: list[str], types: list[int], scores: list[float]) -> list[tuple[str, str]]:
    """Every pair of tokens that SentencePiece joins, best first."""
    normal = {token: score for token, kind, score in zip(tokens, types, scores, strict=True) if kind == _NORMAL}
    pairs = [
        (score, token[:cut], token[cut:])
        for token, score in normal.items()
        for cut in range(1, len(token))
        if token[:cut] in normal and token[cut:] in normal
    ]
    pairs.sort(key=lambda pair: -pair[0])
    return [(left, right) for _, left, right in pairs]


def adds_space(file: GgufFile) -> bool:
    """Whether a text begins with a space of the tokenizer's."""
    return bool(file.tokenizer("add_space_prefix", True))


def make_sentencepiece(file: GgufFile) -> Tokenizer:
    """The tokenizer without its special and user-defined tokens."""
    tokens, types, scores = (file.tokenizer(key) for key in ("tokens", "token_type", "scores"))
    unknown = file.tokenizer("unknown_token_id")
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=_merges(tokens, types, scores),
            byte_fallback=True,
            fuse_unk=True,
            unk_token=None if unknown is None else tokens[unknown],
        )
    )
    first: list[Any] = [normalizers.Prepend(_SPACE)] if adds_space(file) else []
    tokenizer.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", _SPACE)])
    last: list[Any] = [decoders.Strip(" ", 1, 0)] if adds_space(file) else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *last]
    )
    return tokenizer
