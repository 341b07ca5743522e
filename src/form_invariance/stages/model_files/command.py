"""Check that a model is read correctly, and record digests of its files, which later jobs check."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", required=True, help="embedded:NAME, a Hugging Face folder, a GGUF file, or a hub id"
    )
    parser.add_argument("--revision", help="hub branch, tag or commit")
    parser.add_argument("--dtype", default="float32", help="the precision in which logits are compared")
    parser.add_argument("--model-name", help="the model's name in the tables; default: --model")
    add_options(parser, output="table of the files")
    text = "file for the tokenizer, which later jobs read (default: tokenizer.json in the folder of --output)"
    parser.add_argument("--tokenizer-output", type=Path, help=text)


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.model import gguf
    from form_invariance.model import loading as models
    from form_invariance.model.digests import MODEL_FILES, record
    from form_invariance.model.files import resolve
    from form_invariance.model.tokenizers import imported_folder, kept_path, load_tokenizer
    from form_invariance.stages.model_options import dtype_of
    from form_invariance.tables.files import write_table, write_text

    folder = source = resolve(arguments.model, arguments.revision)
    if source.is_file():
        folder = imported_folder(arguments.output)
        gguf.write_folder(source, folder)
    tokenizer = load_tokenizer(folder).tokenizer
    models.load(folder, dtype=dtype_of(arguments), prove=True)
    table = record(folder, source if source.is_file() else None)
    write_text(arguments.tokenizer_output or kept_path(arguments.output), tokenizer.to_str())
    split = tokenizer.encode_special_tokens
    provenance = {"model": arguments.model, "revision": arguments.revision, "split_special_tokens": split}
    write_table(
        table, arguments.output, MODEL_FILES, provenance, {"model": arguments.model_name or arguments.model}
    )
