"""Train one of the package's models from scratch; after a kill, go on from the last checkpoint."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from embedded_training.batches import Problems
from embedded_training.card import write_card
from embedded_training.digits import DigitProblems, write_digit_card
from embedded_training.problems import read_templates
from embedded_training.recipe import DIGITS, RECIPES
from embedded_training.training import train
from embedded_training.weights import save_folder


def main(words: Sequence[str] | None = None) -> None:
    """Train the model that the command line names, and write its Hugging Face folder."""
    parser = argparse.ArgumentParser(prog="python -m embedded_training", description=__doc__)
    parser.add_argument("--name", required=True, choices=RECIPES)
    parser.add_argument("--config", type=Path, required=True, help="configuration with operators and formats")
    parser.add_argument("--output", type=Path, required=True, help="the Hugging Face folder to write")
    arguments = parser.parse_args(words)
    recipe = RECIPES[arguments.name]
    problems: Problems | DigitProblems
    if arguments.name == DIGITS:
        problems = DigitProblems(arguments.config, recipe)
    else:
        problems = Problems(read_templates(arguments.config), recipe)
    checkpoint = arguments.output.with_name(f"{arguments.output.name}.checkpoint")
    weights = train(problems, checkpoint)
    save_folder(weights, recipe, problems.tokenizer.tokenizer, arguments.output)
    if isinstance(problems, DigitProblems):
        write_digit_card(arguments.output, arguments.name, problems)
    else:
        write_card(arguments.output, arguments.name, recipe, problems)
    shutil.rmtree(checkpoint)


if __name__ == "__main__":
    sys.exit(main())
