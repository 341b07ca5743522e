"""Figure of the prompt formats."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_required, add_tokenizer_arguments

HELP = "draw the prompts of every format with their tokens"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_tokenizer_arguments(parser)
    parser.add_argument(
        "--template",
        action="append",
        required=True,
        metavar="FORMAT/OPERATOR=TEXT",
        help="a template; one option each",
    )
    parser.add_argument("--operands", nargs=2, type=int, default=[226, 68], help="operands of the examples")
    add_required(parser, Path, "+", output="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.drawing import style
    from form_invariance.problems.prompts import render
    from form_invariance.stages.prompt_formats.token_boxes import draw
    from form_invariance.stages.tokenizer_options import load_tokenizer_alone
    from form_invariance.tables.keyed import keyed_values

    tokenizer = load_tokenizer_alone(arguments)
    rows = []
    templates = keyed_values(arguments.template, "--template", "FORMAT/OPERATOR=TEXT")
    for (name, operator), template in templates.items():
        rows.append((name, operator, tokenizer.tokens(render(template, *arguments.operands)), "answer"))
    style.save(draw(rows), arguments.output)
