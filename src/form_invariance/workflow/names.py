"""Names of models, operators and formats. They become folders, and words in tables."""

import re

from form_invariance.errors import UserError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
RESERVED = {
    "models": ("benchmarks", "figures", "logs", "tables", "trained"),
    "operators": ("all", "other_operators", "own", "text"),
    "formats": ("all", "shared", "transfer"),
}
"""Other folders of the results, and words of the tables, by the key of the configuration."""


def check_name(name: str, section: str, where: str) -> None:
    """Check a name.

    Args:
        section: the key of the configuration that such names are under.
        where: for the message.
    """
    if not NAME.fullmatch(name):
        raise UserError(
            f"{where}: the name {name!r} must consist of the letters a to z and A to Z, digits, '_', '-' and '.', "
            "and begin with a letter or digit, because it becomes a folder"
        )
    if name in RESERVED[section]:
        raise UserError(f"{where}: the name {name!r} is reserved; choose another")
