"""A tokenizer with a small vocabulary that splits the templates exactly as Llama-3's tokenizer does."""

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
LARGEST_NUMBER = 999

_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_SPLIT_WORDS = {" marbles": (" mar", "bles")}
"""Words of the templates that are several tokens in Llama-3, and these tokens."""


def _pre_tokenizer(digits: int) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PATTERN.replace("DIGITS", str(digits))), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def build_tokenizer(templates: Iterable[str], digits: int = 3) -> Tokenizer:
    """A byte-level BPE tokenizer with the words of `templates` and all numbers of up to three digits as tokens.

    As in Llama-3's tokenizer, a pre-token that is in the vocabulary is one token (`ignore_merges`); any other text
    falls back to bytes. With `digits` 1 it splits numbers into digits, as Qwen 2's does. Reserved tokens fill the
    vocabulary up to a multiple of 64.
    """
    splitter = _pre_tokenizer(digits)

    def spelled(text: str) -> str:
        return "".join(piece for piece, _ in splitter.pre_tokenize_str(text))

    words = {
        piece
        for template in templates
        for piece, _ in splitter.pre_tokenize_str(template.replace("{a}", "0").replace("{b}", "0"))
    }
    merges: list[tuple[str, str]] = []
    for word, parts in _SPLIT_WORDS.items():
        words.discard(spelled(word))
        for part in map(spelled, parts):
            merges += [(part[:end], part[end]) for end in range(1, len(part))]
    merged = {left + right for left, right in merges}
    numbers = [str(number) for number in range(10**digits)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    rest = sorted((words | merged) - set(alphabet) - set(numbers))
    names = [BOS, EOS, *numbers, *(byte for byte in alphabet if byte not in numbers), *rest]
    names += [f"<|reserved_{index}|>" for index in range(-len(names) % 64)]
    vocabulary = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, vocabulary[BOS])]
    )
    tokenizer.add_special_tokens([AddedToken(BOS, special=True), AddedToken(EOS, special=True)])
    return tokenizer
