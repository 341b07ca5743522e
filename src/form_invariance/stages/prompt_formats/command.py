"""Draw the prompts of every format with their tokens."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_keyed, add_required, add_tokenizer_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_tokenizer_arguments(parser)
    parser.add_argument(
        "--template",
        action="append",
        required=True,
        metavar="FORMAT/OPERATOR=TEXT",
        help="a template; one option each",
    )
    parser.add_argument("--operands", nargs=2, default=["226", "68"], help="operands of the examples")
    add_keyed(
        parser, "--table", "OPERATOR=FILE", "an operator's table; its first row is the example", required=False
    )
    add_required(parser, Path, "+", output="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.drawing import style
    from form_invariance.problems.task_tables import first_fields
    from form_invariance.problems.tasks import fill
    from form_invariance.stages.prompt_formats.token_boxes import draw
    from form_invariance.stages.tokenizer_options import load_tokenizer_alone
    from form_invariance.tables.keyed import keyed_values

    tokenizer = load_tokenizer_alone(arguments)
    rows = []
    operands = dict(zip("ab", arguments.operands, strict=True))
    fields = {name: first_fields(path) for name, path in arguments.table.items()}
    templates = keyed_values(arguments.template, "--template", "FORMAT/OPERATOR=TEXT")
    for (name, operator), template in templates.items():
        prompt = fill(template, fields.get(operator, operands))
        rows.append((name, operator, tokenizer.tokens(prompt), "answer"))
    style.save(draw(rows), arguments.output)
