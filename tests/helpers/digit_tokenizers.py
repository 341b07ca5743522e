"""Tokenizers that split numbers into digits, in the manner of three families."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from embedded_training.tokenizer import BOS, EOS, build_tokenizer


def by_digit(tokenizer):
    """The same tokenizer, but each digit is a token, as in Qwen, Gemma, Mistral and Phi-3."""
    own = Tokenizer.from_str(tokenizer.to_str())
    own.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), own.pre_tokenizer])
    return own


def byte_level(templates):
    """A tokenizer like Qwen's: words of bytes, a space joined to the word after it; no token begins the prompt."""
    tokenizer = build_tokenizer(templates, digits=1)
    tokenizer.post_processor = None
    return tokenizer


def metaspace(templates, prepend):
    """A tokenizer like Gemma's: spaces are ▁. With `prepend` a text begins with ▁, as for Mistral and Phi-3."""
    letters = sorted({*"".join(templates).replace(" ", "▁"), *"0123456789▁"} - set("{}"))
    vocabulary = {name: place for place, name in enumerate((BOS, EOS, "<unk>", *letters))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    steps = [normalizers.Prepend("▁")] if prepend else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(BOS, special=True), AddedToken(EOS, special=True)])
    return tokenizer
