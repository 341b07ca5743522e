"""Values for the options that a command needs and a test does not vary."""

import dataclasses
import inspect

from form_invariance.cli import functions_of

OPERANDS = {"--operand-min", "--operand-max", "--answer-min", "--answer-max"}

SETTINGS = {
    "--seed": "0",
    "--format": "code",
    "--membership": "positive",
    "--late-from": "half_depth",
    "--candidates": "2000",
    "--bootstrap": "200",
    "--random-seeds": "5",
    "--matched-seeds": "5",
    "--permutations": "10000",
    "--pairs": "600",
    "--prompts": "10",
    "--threshold": "0.6",
    "--operand-min": "6",
    "--operand-max": "999",
    "--answer-min": "3",
    "--answer-max": "999",
}


def complete(words):
    """A command line with every required option that it leaves out and that has a value here."""
    words = [str(word) for word in words]
    given = {word.partition("=")[0] for word in words}
    functions = functions_of(words[0])
    options = options_of(functions.get(words[0]) or functions[words[1]])
    required = {name for name, needed in options.items() if needed}
    if "--expression" in given:
        required |= options.keys() & OPERANDS
    left_out = sorted(required - given)
    words += [word for name in left_out if name in SETTINGS for word in (name, SETTINGS[name])]
    centred = "--center-logits" in left_out and "--no-center-logits" not in given
    return [*words, *(["--center-logits"] if centred else [])]


def options_of(function):
    """The names of a command's options, and whether each is required."""
    found = {}
    for name, one in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(one.annotation):
            found |= options_of(one.annotation)
        elif one.kind is one.KEYWORD_ONLY:
            found[f"--{name.replace('_', '-')}"] = one.default is one.empty
    return found
