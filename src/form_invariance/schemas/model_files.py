"""The record of a model's files."""

from form_invariance.schemas.columns import Schema, integer, text

MODEL_FILES = Schema(
    "model_files",
    {
        "file": text("name of a file in the model's folder"),
        "bytes": integer("its length"),
        "checksum": text("XXH3, 128 bits, of its content: what every job of the model compares"),
        "sha256": text("sha256 of the file, as sha256sum and the hub tell it"),
    },
)
