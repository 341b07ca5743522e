"""Train one of the embedded models from scratch."""

import argparse
from pathlib import Path

from form_invariance.embedded.recipe import DIGITS, RECIPES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help=" or ".join(RECIPES))
    parser.add_argument("--config", type=Path, required=True, help="configuration with operators and formats")
    parser.add_argument("--output", type=Path, required=True, help="the Hugging Face folder to write")


def run(arguments: argparse.Namespace) -> None:
    """Run the command. After a kill, the next run continues from the last checkpoint."""
    import shutil

    from form_invariance.embedded.batches import Problems
    from form_invariance.embedded.card import write_card
    from form_invariance.embedded.digits import DigitProblems, write_digit_card
    from form_invariance.embedded.problems import read_templates
    from form_invariance.embedded.training import train
    from form_invariance.embedded.weights import save_folder
    from form_invariance.errors import UserError

    if arguments.name not in RECIPES:
        raise UserError(f"--name: {arguments.name!r} is not an embedded model; known are {', '.join(RECIPES)}")
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
