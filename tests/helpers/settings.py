"""Values for the options that a command needs and a test does not vary."""

from form_invariance.cli import command_module
from form_invariance.stages.options import OPERANDS

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


class _Declared:
    """Takes the place of a parser, and remembers its options, and which are required."""

    def __init__(self, words=()):
        self.names, self.required, self.words = set(), set(), words

    def add_argument(self, *names, required=False, **_):
        self.names |= {names[0]}
        self.required |= {names[0]} if required else set()

    def set_defaults(self, **_):
        """A default is no required option."""

    def add_mutually_exclusive_group(self, **_):
        return _Declared()

    def add_subparsers(self, **_):
        return self

    def add_parser(self, name, **_):
        return self if name in self.words else _Declared()


def complete(words):
    """A command line with every required option that it leaves out and that has a value here."""
    words = [str(word) for word in words]
    declared = _Declared(words)
    command_module(words[0]).add_arguments(declared)
    given = {word.partition("=")[0] for word in words}
    if "--expression" in given:
        declared.required |= declared.names & set(OPERANDS)
    left_out = sorted(declared.required - given)
    words += [word for name in left_out if name in SETTINGS for word in (name, SETTINGS[name])]
    return [*words, *(["--center-logits"] if "--center-logits" in set(left_out) - {"--no-center-logits"} else [])]
