"""Draw a figure of a stage from its tables."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", metavar="STAGE", help="a stage with figures, for instance overlap")
    parser.add_argument("name", metavar="NAME", help="the figure's name, for instance overlap")
    parser.add_argument("--tables", type=Path, nargs="+", required=True, help="its tables, in any order")
    parser.add_argument("--title", required=True, help="heading of the figure")
    parser.add_argument("--k", type=int, required=True, help="circuit size, for figures that show a single one")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.drawing import style
    from form_invariance.drawing.figures import figure_of
    from form_invariance.tables.inputs import input_paths, read_inputs

    draw, inputs = figure_of(arguments.stage, arguments.name)
    tables = read_inputs(input_paths(arguments.tables, inputs, "this figure needs"), inputs)
    style.save(draw(tables, arguments.title, arguments.k), arguments.output)
