"""Figure of the prompt formats."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_tokenizer_arguments

HELP = "draw the prompts of every format with their tokens"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer_arguments(parser)
    parser.add_argument(
        "--template",
        action="append",
        required=True,
        metavar="FORMAT/OPERATOR=TEXT",
        help="a template; one option each",
    )
    parser.add_argument("--operands", nargs=2, type=int, default=[226, 68], help="operands of the examples")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.problems.prompts import render
    from form_invariance.stages.options import named_values
    from form_invariance.stages.prompt_formats.token_boxes import draw
    from form_invariance.stages.tokenizer_options import load_tokenizer_alone

    tokenizer = load_tokenizer_alone(arguments)
    rows = []
    for key, template in named_values(arguments.template, "--template", "TEXT").items():
        name, _, operator = key.partition("/")
        rows.append((name, operator, tokenizer.tokens(render(template, *arguments.operands)), "answer"))
    style.save(draw(rows), arguments.output)
