"""Read a file of the user, and check that it has the content with which the run began."""

import hashlib
from pathlib import Path

from form_invariance.errors import UserError


def read_bytes(path: Path, sha256: str | None = None) -> bytes:
    """The content of a file, compared with the `sha256` that it had when the run began, if that is known.

    Raises:
        OSError: the file cannot be read.
        UserError: its content has changed.
    """
    content = path.read_bytes()
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"{path} has changed since the run began; run snakemake again, which recomputes all that depends on it"
        )
    return content
