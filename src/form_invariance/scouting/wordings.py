"""The wordings that scout tries, by format, and worked examples before them.

A wording is a template; `ANSWER` and more text may follow it: ``CAPITALS["{country}"] = "{answer}"``. In worked
examples, this text and a line break follow the answer.
"""

import json
import re
from collections.abc import Sequence

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import first_tokens
from form_invariance.problems.templates import as_template, fields_of, fill
from form_invariance.stages.heuristics.names import EXPRESSIONS

ANSWER = "{answer}"
_SIGNS = {"addition": "+", "subtraction": "-", "multiplication": "*", "division": "/"}
_WORD = {
    "addition": (
        "Question: Ann has {a} pens and gets {b} more. How many pens does she have?\nAnswer: ",
        "Jack has {a} apples. His friend gives him {b} more apples. How many apples does Jack have now? Answer: ",
        "Jack has {a} apples and gets {b} more. Now he has ",
    ),
    "subtraction": (
        "Question: Ann has {a} pens and loses {b} of them. How many pens does she have?\nAnswer: ",
        "Jack has {a} apples. His friend takes {b} of the apples. How many apples does Jack have now? Answer: ",
        "Jack has {a} apples and eats {b}. Now he has ",
    ),
    "multiplication": (
        "Question: Ann has {a} boxes with {b} pens in each box. How many pens does she have?\nAnswer: ",
        "Jack has {a} bags with {b} apples in each bag. How many apples does Jack have in total now? Answer: ",
        "A library has {a} shelves and each shelf holds {b} books. The total number of books in the library is ",
    ),
    "division": (
        "Question: Ann puts {a} pens into boxes of {b}. How many full boxes does she have?\nAnswer: ",
        "Jack has {a} apples. He packs them into bags of {b}. How many full bags can Jack make? Answer: ",
        "There are {a} marbles and each full jar contains {b} marbles. The number of full jars is ",
    ),
}


def of_arithmetic(operator: str) -> dict[str, tuple[str, ...]]:
    """The wordings of an operator of `EXPRESSIONS`, by format."""
    sign, expression = _SIGNS[operator], EXPRESSIONS[operator]
    with_fields = expression.replace("a", "{a}").replace("b", "{b}")
    return {
        "symbolic": (f"{{a}}{sign}{{b}}=", f"{{a}} {sign} {{b}} = ", f"Calculate: {{a}} {sign} {{b}} = "),
        "code": (
            f"a = {{a}}\nb = {{b}}\nprint({expression})  # ",
            f"x = {with_fields}\nprint(x)  # ",
            f">>> {with_fields}\n",
        ),
        "word": _WORD[operator],
    }


def of_table(relation: str, fields: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The wordings of a table, by format.

    Args:
        relation: name of the answers' column, for instance capital.
        fields: the names of the other columns.
    """
    of = "to" if relation == "answer" else "of"
    plain_fields = ", ".join(f"{{{name}}}" for name in fields)
    named = ", ".join(f"{name.replace('_', ' ')} {{{name}}}" for name in fields)
    call = re.sub(r"\W", "_", relation)
    quoted_fields = ", ".join(f'"{{{name}}}"' for name in fields)
    return {
        "sentence": (
            f"The {relation} {of} {plain_fields} is",
            f"The {relation} {of} the {named} is",
            f"{plain_fields}: the {relation} is",
        ),
        "question": (
            f"Question: What is the {relation} {of} {plain_fields}?\nAnswer:",
            f"Q: What is the {relation} {of} the {named}?\nA:",
            f"{named}\n{relation}:",
        ),
        "code": (
            f"{call}({quoted_fields})  # ->",
            f"print({call}({quoted_fields}))  #",
            f"assert {call}({quoted_fields}) ==",
        ),
    }


def as_typed(text: str) -> str:
    """A wording from a line of text, in which \\n is a line break and \\\\ a backslash."""
    return re.sub(r"\\([\\n])", lambda match: "\n" if match[1] == "n" else "\\", text)


def as_shown(wording: str) -> str:
    """A wording as one line of text: the inverse of `as_typed`."""
    return wording.replace("\\", r"\\").replace("\n", r"\n")


def halves(wording: str) -> tuple[str, str]:
    """The template of a wording, and what follows the answer in its worked examples."""
    template, _, after = wording.partition(ANSWER)
    return template, after


def with_examples(
    tokenizer: PromptTokenizer, wording: str, examples: pd.DataFrame, where: str, words: bool = False
) -> str:
    """The template of a wording after worked examples of it, with a line break after each.

    Args:
        examples: columns fields and text, the whole answer.
        words: whether answers are words. The first token of a word includes the space before it, so a space that
            is typed before `ANSWER` goes into the examples, and the template ends without it.
    """
    template, after = halves(wording)
    typed = " " if words and ANSWER in wording and template.endswith(" ") else ""
    template = template.removesuffix(typed)
    if examples.empty:
        return template
    prompts = [fill(template, json.loads(fields)) for fields in examples["fields"]]
    answers = examples["text"].tolist()
    tokens = first_tokens(tokenizer, prompts, answers, where)
    before = tokenizer.encode_each(prompts)
    spaced = tokenizer.encode_each([f"{prompt} {text}" for prompt, text in zip(prompts, answers, strict=True)])
    shown, after = "", fill(after, {})
    for prompt, text, token, prompt_ids, ids in zip(prompts, answers, tokens, before, spaced, strict=True):
        gap = typed or (" " if ids[: len(prompt_ids) + 1] == [*prompt_ids, token] else "")
        shown += f"{prompt}{gap}{text}{after}\n"
    shots = as_template(shown)
    if fields := fields_of(shots, [*json.loads(examples["fields"].iloc[0])]):
        raise UserError(
            f"{where}: a worked example has {{{fields[0]}}}, which the template would take for a field"
        )
    return shots + template
