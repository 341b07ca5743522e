"""Digests of a model's files."""

from hashlib import sha256
from pathlib import Path

from form_invariance.experiment.model_options import dtype_of
from form_invariance.experiment.options import Precision, Source, recorded
from form_invariance.model import loading as models
from form_invariance.model.digests import MODEL_FILES, record, recorded_identity
from form_invariance.model.files import resolve
from form_invariance.model.gguf import write_folder
from form_invariance.model.tokenizers import imported_folder, kept_path, load_tokenizer
from form_invariance.tables import lineage
from form_invariance.tables.files import write_table, write_text


def model_files(
    *,
    model: Source,
    dtype: Precision = "float32",
    model_name: str | None = None,
    output: Path,
    tokenizer_output: Path | None = None,
) -> None:
    """Check that a model is read correctly, and record digests of its files, which later jobs check.

    Args:
        dtype: the precision in which logits are compared; default: float32
        model_name: the model's name in the tables; default: --model
        output: table of the files
        tokenizer_output: the tokenizer, which later jobs read; default: tokenizer.json in the folder of --output
    """
    settings = recorded(locals())

    folder = source = resolve(model.model, model.revision)
    if source.is_file():
        folder = imported_folder(output)
        write_folder(source, folder)
    tokenizer = load_tokenizer(folder).tokenizer
    models.load(folder, dtype=dtype_of(dtype), prove=True)
    file = source if source.is_file() else None
    table = record(folder, file)
    lineage.note(lineage.WEIGHTS, recorded_identity(table, file))
    text = tokenizer.to_str()
    write_text(tokenizer_output or kept_path(output), text)
    provenance = {
        **settings,
        "split_special_tokens": tokenizer.encode_special_tokens,
        "tokenizer_sha256": sha256(text.encode()).hexdigest(),
    }
    write_table(table, output, MODEL_FILES, provenance, {"model": model_name or model.model})
