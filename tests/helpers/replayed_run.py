"""A run in this process: the commands are those that Snakemake calls for a configuration, in its order."""

import contextlib
import re
import shlex

import yaml
from stub_checkout import done, make_checkout

from form_invariance.cli import main


def calls_of(folder, config, *targets):
    """The command lines that make some files, or everything, in a valid order, as a dry run prints them."""
    checkout = make_checkout(folder)
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    out = done(checkout, "-n", "-p", *targets)
    lines = re.findall(r"^Shell command: python -m form_invariance (.*?) 2> ", out, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in lines]


def replay(calls, folder, **options):
    """Run command lines in a folder; those that run a model with other values of the given options."""
    with contextlib.chdir(folder):
        for words in calls:
            changed = options if any(word.startswith("--device=") for word in words) else {}
            kept = [word for word in words if word.partition("=")[0].removeprefix("--") not in changed]
            assert main([*kept, *(f"--{name}={value}" for name, value in changed.items())]) == 0, words


def run(*words):
    """Run one command."""
    assert main([str(word) for word in words]) == 0


def written(words, folder):
    """The files that a command line writes when it is run in a folder."""
    option = ""
    for word in words:
        option = word if word.startswith("--") else option
        if word != option and option.endswith(("output", "outputs")):
            yield folder / word
        elif word != option and option == "--output-folder":
            yield from sorted(path for path in (folder / word).iterdir() if path.is_file())
