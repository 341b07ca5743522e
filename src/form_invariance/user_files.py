"""Read a file of the user, and check that it has the content with which the run began."""

import hashlib
from pathlib import Path

from form_invariance.errors import UserError


def read_bytes(path: Path, sha256: str | None = None) -> bytes:
    """The content of a file.

    Args:
        sha256: of the content that the run began with, if that is known.

    Raises:
        OSError: the file cannot be read.
        UserError: it has another content now.
    """
    content = path.read_bytes()
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"{path} has changed since the run began; run snakemake again, which recomputes all that depends on it"
        )
    return content
