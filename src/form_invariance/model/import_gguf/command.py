"""Write the model of a GGUF file as a Hugging Face folder, and check its weights bit for bit."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the .gguf file")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write: new, or empty")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.model.import_gguf.folder import write_folder

    write_folder(arguments.file, arguments.output)
