"""The other tasks of a configuration that scout writes: most compute nothing or little, products do."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from form_invariance.errors import UserError
from form_invariance.problems.configured import check_other_task, task_of
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic
from form_invariance.scouting.questions import AskedQuestion
from form_invariance.scouting.wordings import of_arithmetic

_TEMPLATES = {
    ("copying", "a"): {
        "symbolic": "{a} = ",
        "code": "a = {a}\nprint(a)  # ",
        "word": "Question: Ann has {a} pens. How many pens does she have?\nAnswer: ",
    },
    ("list", "a"): {
        "symbolic": "[37, {a}, 52][1] = ",
        "code": "x = [37, {a}, 52]\nprint(x[1])  # ",
        "word": "Ann has 37 pens, Ben has {a} and Carl has 52. The number of pens that Ben has is ",
    },
    ("comparing", "max(a, b)"): {
        "symbolic": "max({a}, {b}) = ",
        "code": "a = {a}\nb = {b}\nprint(max(a, b))  # ",
        "word": "Ann has {a} pens and Ben has {b}. The larger of the two numbers is ",
    },
    ("counting", "a + 1"): {
        "symbolic": "..., {a}, ",
        "code": "for n in range({a}, 1000):\n    print(n)\n# {a}\n# ",
        "word": "Ann counts: {a}, ",
    },
    ("product", "a * b"): {name: first for name, (first, *_) in of_arithmetic("multiplication").items()},
}
"""Templates by (name, expression), then by format."""


def other_tasks(
    tokenizer: PromptTokenizer, questions: Iterable[AskedQuestion], formats: Iterable[str]
) -> dict[str, Any]:
    """The key `specificity_tasks` of a configuration: the tasks that fit the tokenizer, for numbers alone.

    A task that asks the same as an operator is left out. If the operators ask digits, there is a task for each
    digit, with numbers as long as the operators' answers.
    """
    numbers = [(question.task, question.digits) for question in questions if isinstance(question.task, Arithmetic)]
    operator_expressions, tasks = {task.expression for task, _ in numbers}, dict[str, Any]()
    for (name, expression), templates in _TEMPLATES.items() if numbers else ():
        if expression in operator_expressions:
            continue
        limits, digits = vars(numbers[0][0].limits), numbers[0][1]
        for digit in range(digits) or (None,):
            other_task: dict[str, Any] = {"expression": expression} | ({} if digit is None else {"digit": digit})
            if expression == "a * b" and digits:  # so that the answer may be as short as the operators'
                other_task["operands"] = {"operand_min": 2, "operand_max": 10 ** (digits - 1) - 1}
            fits = {
                form: templates[form]
                for form in formats
                if form in templates and _fits(other_task, limits, tokenizer, templates[form])
            }
            if fits:
                tasks[name if digit is None else f"{name}_{digit}"] = {**other_task, "templates": fits}
    return tasks


def few_tasks(tasks: Mapping[str, Any]) -> dict[str, Any]:
    """Copying and one more task, which computes something if there is one, each with its last digit alone."""
    by_name = {}
    for name, task in tasks.items():  # a later digit replaces an earlier one
        by_name[re.sub(r"_\d$", "", name)] = name, task
    order = [name for name in ("copying", "comparing", "counting", "product", "list") if name in by_name]
    return dict(by_name[name] for name in order[:2])


def _fits(task: dict[str, Any], limits: dict[str, int], tokenizer: PromptTokenizer, template: str) -> bool:
    try:
        check_other_task(task_of(task, limits), tokenizer, template, "scout")
    except UserError:
        return False
    return True
