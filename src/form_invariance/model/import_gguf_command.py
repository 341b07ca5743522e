"""Write the model of a GGUF file as a Hugging Face folder."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the .gguf file")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write: new, or empty")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.model import loading
    from form_invariance.model.gguf import write_folder

    file, output = arguments.file, arguments.output
    if not file.is_file():
        raise UserError(f"{file} is not a file; give a .gguf file")
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UserError(f"--output: {output} exists and is not an empty folder; delete it or name another folder")
    write_folder(file, output)
    loading.load(output, prove=True)
