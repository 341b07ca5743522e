"""GGUF files."""

from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.model import loading
from form_invariance.model.gguf import write_folder


def import_gguf(file: Path, /, *, output: Path) -> None:
    """Write the model of a GGUF file as a Hugging Face folder.

    Args:
        file: the .gguf file
        output: the folder to write: new, or empty
    """
    if not file.is_file():
        raise UserError(f"{file} is not a file; give a .gguf file")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"--output: {output} exists and is not an empty folder; delete it or name another folder")
    write_folder(file, output)
    loading.load(output, prove=True)
