"""A run in this process: the commands are those that Snakemake calls for a configuration, in its order."""

import contextlib
import json

import yaml
from stub_checkout import make_checkout, snakemake

from form_invariance.cli import main


def calls_of(folder, config, *targets):
    """The command lines that make some files, or everything, from a checkout whose commands do not compute."""
    checkout = make_checkout(folder)
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    status, out = snakemake(checkout, *targets)
    assert status == 0, out
    return [json.loads(line) for line in (checkout / "calls.jsonl").read_text().splitlines()]


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
