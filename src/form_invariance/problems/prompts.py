"""Make tokens from prompts, and check templates against a tokenizer (method, section 1)."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.templates import check_fields, render

PAD = -1
"""Fills the places before the token ids of a shorter prompt."""
_PART = 10_000
"""Numbers that are encoded at once."""


@dataclass(frozen=True)
class PromptTokenizer:
    """A model's tokenizer, with the token that begins every prompt.

    Every encoding is checked: text that cannot be encoded, and tokens that the model does not have, are errors.
    """

    tokenizer: Tokenizer
    bos: int | None
    vocabulary: int | None = None
    """Number of tokens that the model has; None if unknown."""
    name: str = "the tokenizer"
    """Path of tokenizer.json, for messages."""

    @cached_property
    def digest(self) -> str:
        """sha256 of all that decides the token ids of a prompt and their texts."""
        content = json.loads(self.tokenizer.to_str())
        # Special tokens that the tokenizer would add are not used; only `bos` begins a prompt.
        del content["post_processor"]
        identity = json.dumps([content, self.tokenizer.encode_special_tokens, self.bos])
        return f"sha256:{hashlib.sha256(identity.encode()).hexdigest()}"

    def encode_each(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without BOS."""
        if not texts:
            return []
        with in_one_sentence(f"{self.name} cannot encode texts such as {texts[0]!r}"):
            encoded = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [encoding.ids for encoding in encoded]
        for text, token_ids in zip(texts, ids, strict=True):
            if self.vocabulary is not None and max(token_ids, default=0) >= self.vocabulary:
                raise UserError(
                    f"{self.name} encodes {text!r} with token {max(token_ids)}, but the model has "
                    f"{self.vocabulary} tokens; take tokenizer.json and config.json from one model"
                )
        return ids

    def encode(self, text: str) -> list[int]:
        """Token ids of one text, without BOS."""
        return self.encode_each([text])[0]

    def text(self, token: int) -> str:
        """One token as a string, for display."""
        with in_one_sentence(f"{self.name} cannot decode the token {token}"):
            return str(self.tokenizer.decode([token], skip_special_tokens=False))

    def tokens(self, text: str) -> list[str]:
        """The tokens of `text` as strings, for display, without BOS."""
        return [self.text(token) for token in self.encode(text)]

    def encode_batch(self, texts: Sequence[str]) -> np.ndarray:
        """Token ids of prompts, BOS first, int64, shape (prompts, tokens of the longest).

        Shorter prompts are padded on the left with `PAD`, which no model ever runs (`model.batches`).
        """
        bos = [] if self.bos is None else [self.bos]
        encoded = [[*bos, *ids] for ids in self.encode_each(texts)]
        longest = max(map(len, encoded), default=0)
        return np.array([[PAD] * (longest - len(ids)) + ids for ids in encoded], dtype=np.int64).reshape(
            len(texts), longest
        )

    def number_tokens(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The single token of each number, int64, shape (n,)."""
        tokens: list[int] = []
        each, which = np.unique(np.asarray(numbers, dtype=np.int64), return_inverse=True)
        # In parts, so that a limit that is far too large is refused at the first number beyond it.
        for start in range(0, len(each), _PART):
            part = each[start : start + _PART].tolist()
            encoded = self.encode_each([str(number) for number in part])
            several = next((number for number, ids in zip(part, encoded, strict=True) if len(ids) != 1), None)
            if several is not None:
                raise UserError(
                    f"{self.name} splits the number {several} into several tokens, but the experiment needs one "
                    f"token per number; {self._usable(several)}"
                )
            tokens += [ids[0] for ids in encoded]
        return np.array(tokens, dtype=np.int64)[which]

    def _usable(self, highest: int) -> str:
        """Advice on numbers of several tokens; `highest` is one of these numbers."""
        encoded = self.encode_each([str(n) for n in range(highest + 1)])
        first = next(n for n, ids in enumerate(encoded) if len(ids) != 1)
        if first < 2:
            return "no number is one token, so ask one digit at a time (docs/extend.md) or choose another model"
        return (
            f"0 to {first - 1} are one token each, so set operand_max and answer_max to {first - 1} at most, or "
            "ask one digit at a time (docs/extend.md)"
        )


def encode_prompts(tokenizer: PromptTokenizer, prompts: Sequence[str], where: str) -> list[list[int]]:
    """Token ids of prompts, without BOS."""
    encoded = tokenizer.encode_each(prompts)
    for prompt, ids in zip(prompts, encoded, strict=True):
        if tokenizer.bos is not None and tokenizer.bos in ids:
            raise UserError(
                f"{where}: {tokenizer.name} splits {prompt!r} as {tokenizer.tokens(prompt)}, but "
                f"{tokenizer.text(tokenizer.bos)!r} begins every prompt already; remove it from the template or "
                "the table"
            )
    return encoded


def check_numbers(tokenizer: PromptTokenizer, limits: OperandRange) -> dict[int, int]:
    """The token of each operand and answer within the limits."""
    operands = range(limits.operand_min, limits.operand_max + 1)
    answers = range(limits.answer_min, limits.answer_max + 1)
    numbers = sorted({*operands, *answers})
    token_of = dict(zip(numbers, tokenizer.number_tokens(numbers).tolist(), strict=True))
    first: dict[int, int] = {}
    for number, token in token_of.items():
        if first.setdefault(token, number) != number:
            raise UserError(
                f"{tokenizer.name} encodes the numbers {first[token]} and {number} as the same token, but the "
                "experiment needs a different token for each number; choose another model"
            )
    for number, token in token_of.items():
        text = tokenizer.text(token)
        if "".join(re.findall(r"\d", text)) != str(number):
            raise UserError(
                f"{tokenizer.name} encodes the number {number} as a token that decodes to {text!r}; correct its "
                "normalizer or decoder, or choose another model"
            )
    return token_of


def check_template(tokenizer: PromptTokenizer, template: str, where: str, limits: OperandRange) -> tuple[int, int]:
    """Check a template against a tokenizer.

    The rules: each operand is one token, the length does not depend on the operands, and the answer is the next
    token after the prompt, a single one. Most tokenizers encode each word or number by itself, so this varies one
    operand at a time, and then the answer; `check_prompts` checks the prompts that are run.

    Returns:
        Positions of the operands' tokens, BOS not counted.
    """
    check_fields(template, where)
    a0, b0 = limits.operand_max, limits.operand_min
    operands = range(limits.operand_min, limits.operand_max + 1)
    answers = range(limits.answer_min, limits.answer_max + 1)
    prompt = render(template, a0, b0)
    token_of = check_numbers(tokenizer, limits)
    (base,) = encode_prompts(tokenizer, [prompt], where)

    def refuse(rule: str) -> NoReturn:
        raise UserError(f"{where}: template {template!r} gives the tokens {tokenizer.tokens(prompt)}, but {rule}")

    if base.count(token_of[a0]) != 1 or base.count(token_of[b0]) != 1:
        refuse(f"the operands {a0} and {b0} must each be one token of their own")
    positions = base.index(token_of[a0]), base.index(token_of[b0])
    for field, position in zip("ab", positions, strict=True):
        texts = [render(template, n, b0) if field == "a" else render(template, a0, n) for n in operands]
        if tokenizer.encode_each(texts) != [
            [*base[:position], token_of[n], *base[position + 1 :]] for n in operands
        ]:
            refuse(
                f"not every number of {operands[0]}..{operands[-1]} is one token in place of {{{field}}} "
                "with the rest unchanged"
            )
    if tokenizer.encode_each([f"{prompt}{n}" for n in answers]) != [[*base, token_of[n]] for n in answers]:
        refuse(
            "the answer must be the next token after the prompt, and a single one; most tokenizers never merge a "
            "space with digits, so a prompt that ends in a word must end in a space"
        )
    return positions


def check_prompts(
    tokenizer: PromptTokenizer, prompts: Sequence[str], pairs: pd.DataFrame, positions: tuple[int, int], where: str
) -> None:
    """Check the prompts of one template: only the operands' tokens differ.

    `check_template` varies one operand at a time. Tokens that span both operands, such as ``7+8``, or rules that
    depend on both, are only found here.

    Args:
        prompts: P prompts.
        pairs: their columns a and b, P rows.
        positions: positions of the operands' tokens, BOS not counted.
    """
    expected_ids = np.array(tokenizer.encode_each(prompts[:1]) * len(prompts))
    for name, position in zip(("a", "b"), positions, strict=True):
        expected_ids[:, position] = tokenizer.number_tokens(pairs[name].to_numpy())
    for text, ids, expected in zip(prompts, tokenizer.encode_each(prompts), expected_ids.tolist(), strict=True):
        if ids != expected:
            raise UserError(
                f"{where}: {tokenizer.name} splits {text!r} as {tokenizer.tokens(text)}: other tokens than the "
                f"operands' differ from {prompts[0]!r}"
            )


def check_next_token(
    tokenizer: PromptTokenizer, prompts: Sequence[str], answers: Sequence[int] | np.ndarray, where: str
) -> np.ndarray:
    """Check that each answer is the next single token after its prompt.

    Returns:
        The answers' token ids, int64, (P,).
    """
    ended = [f"{prompt}{answer}" for prompt, answer in zip(prompts, answers, strict=True)]
    answer_tokens = tokenizer.number_tokens(answers)
    for text, before, after, token in zip(
        ended, encode_prompts(tokenizer, prompts, where), tokenizer.encode_each(ended), answer_tokens, strict=True
    ):
        if after != [*before, token]:
            raise UserError(
                f"{where}: {tokenizer.name} splits {text!r} as {tokenizer.tokens(text)}, but the answer must be "
                "the next token after the prompt, and a single one; a prompt that ends in a word needs a space "
                "at its end"
            )
    return answer_tokens
