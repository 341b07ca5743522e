"""Templates to prompts, prompts to tokens, and the rules that a template must hold (method, section 1)."""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from form_invariance.errors import UserError
from form_invariance.operands import OperandRange


def render(template: str, a: int, b: int) -> str:
    """Put two operands into a template; only the fields ``{a}`` and ``{b}`` are replaced."""
    return template.replace("{a}", str(a)).replace("{b}", str(b))


def check_fields(template: str, where: str) -> None:
    """Check that a template has the fields ``{a}`` and ``{b}``, once each, and no other.

    Raises:
        UserError: naming `where` the template stands.
    """
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    except ValueError:
        fields = re.findall(r"\{(.*?)\}", template)
    if sorted(fields) != ["a", "b"]:
        raise UserError(
            f"{where}: template {template!r} must have the fields {{a}} and {{b}} once each and no "
            f"other, but has {fields or 'none'}"
        )


@dataclass(frozen=True)
class PromptTokenizer:
    """A model's tokenizer, with the token that opens every prompt."""

    tokenizer: Tokenizer
    bos: int | None

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, without BOS."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def text(self, token: int) -> str:
        """One token as a string, for people to read."""
        return str(self.tokenizer.decode([token], skip_special_tokens=False))

    def tokens(self, text: str) -> list[str]:
        """The tokens of `text` as strings, for people to read, without BOS."""
        return [self.text(token) for token in self.encode(text)]

    def encode_batch(self, texts: Sequence[str]) -> np.ndarray:
        """Token ids of prompts of one length, BOS first, int64, shape (prompts, tokens).

        Raises:
            UserError: the prompts differ in length.
        """
        encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        lengths = [len(encoding.ids) for encoding in encoded]
        if len(set(lengths)) > 1:
            short, long = texts[int(np.argmin(lengths))], texts[int(np.argmax(lengths))]
            raise UserError(
                f"prompts of one batch differ in length: {short!r} has {min(lengths)} tokens, "
                f"{long!r} has {max(lengths)}; a template must give the same length for all operands"
            )
        ids = np.array([encoding.ids for encoding in encoded], dtype=np.int64).reshape(len(texts), -1)
        if self.bos is None:
            return ids
        return np.concatenate([np.full((len(ids), 1), self.bos, dtype=np.int64), ids], axis=1)

    def number_tokens(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The single token of each number, int64, shape (n,).

        Raises:
            UserError: a number is not one token.
        """
        encoded = self.tokenizer.encode_batch([str(number) for number in numbers], add_special_tokens=False)
        several = [int(number) for number, one in zip(numbers, encoded, strict=True) if len(one.ids) != 1]
        if several:
            raise UserError(
                f"the tokenizer splits the number {several[0]} into several tokens; the experiment needs "
                f"one token a number: {self._usable(max(several))}"
            )
        return np.array([one.ids[0] for one in encoded], dtype=np.int64)

    def _usable(self, highest: int) -> str:
        """What to do about numbers of several tokens, of which `highest` is one."""
        encoded = self.tokenizer.encode_batch([str(n) for n in range(highest + 1)], add_special_tokens=False)
        first = next(n for n, one in enumerate(encoded) if len(one.ids) != 1)
        if first < 2:
            return "it keeps no number whole; choose another model"
        return f"it keeps 0 to {first - 1} whole, so set operand_max and answer_max to {first - 1} at most"


def check_template(tokenizer: PromptTokenizer, template: str, where: str, limits: OperandRange) -> None:
    """Check a template against a tokenizer.

    The rules: each operand is one token, the length does not depend on the operands, and the answer is
    the very next single token after the prompt. Tokenizers with a byte-pair merge only look at a
    pre-token's own text, so each operand is varied alone, and then the answer.

    Raises:
        UserError: with the template, its tokens and the rule that it breaks.
    """
    check_fields(template, where)
    a0, b0 = limits.operand_max, limits.operand_min
    operands = range(limits.operand_min, limits.operand_max + 1)
    answers = range(limits.answer_min, limits.answer_max + 1)
    prompt = render(template, a0, b0)
    shown = tokenizer.tokens(prompt)

    def refuse(rule: str) -> None:
        raise UserError(f"{where}: template {template!r} gives the tokens {shown}, but {rule}")

    numbers = sorted({*operands, *answers})
    token_of = dict(zip(numbers, tokenizer.number_tokens(numbers).tolist(), strict=True))
    base = tokenizer.encode(prompt)
    if base.count(token_of[a0]) != 1 or base.count(token_of[b0]) != 1:
        refuse(f"the operands {a0} and {b0} must each be one token of their own")
    position_a, position_b = base.index(token_of[a0]), base.index(token_of[b0])
    encode = tokenizer.tokenizer.encode_batch

    def expect(texts: list[str], expected: list[list[int]], rule: str) -> None:
        for encoding, want in zip(encode(texts, add_special_tokens=False), expected, strict=True):
            if encoding.ids != want:
                refuse(rule)

    def replaced(position: int, number: int) -> list[int]:
        return [*base[:position], token_of[number], *base[position + 1 :]]

    for field, position in (("a", position_a), ("b", position_b)):
        texts = [render(template, n, b0) if field == "a" else render(template, a0, n) for n in operands]
        expect(
            texts,
            [replaced(position, n) for n in operands],
            f"not every number of {operands[0]}..{operands[-1]} is one token in place of {{{field}}} "
            "with the rest unchanged",
        )
    expect(
        [prompt + str(n) for n in answers],
        [[*base, token_of[n]] for n in answers],
        "the answer must be the very next single token after the prompt; most tokenizers never merge a "
        "space with digits, so a prompt that ends in a word must end in a space",
    )
