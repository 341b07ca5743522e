"""Paths that Snakemake or Python would misread, and the folder of the default configuration."""

import os
from pathlib import Path
from shlex import quote

from form_invariance.errors import UserError


def default_folder() -> Path:
    """The folder with config.yaml and its schema: `config` of the working folder, else of the checkout."""
    for folder in (Path("config"), Path(__file__).parents[3] / "config"):
        if (folder / "config.yaml").exists():
            return folder
    raise UserError(f"there is no config/config.yaml in {Path.cwd()}; run this in the checkout")


def check_folders(**folders: Path) -> None:
    """Refuse folders that do not exist, and paths with braces. Keywords name the folders, with `_` for a space."""
    for what, folder in folders.items():
        name = what.replace("_", " ")
        if not folder.is_dir():
            raise UserError(
                f"the {name}, {folder}, is not a folder on this machine; clone the repository at the tag that you "
                "want, and name the Snakefile of the clone"
            )
        if set("{}") & set(str(folder)):
            raise UserError(
                f"the path of the {name}, {folder}, has braces, which Snakemake reads as wildcards; move it"
            )


def shell_prefix(source: Path, links: Path) -> str:
    """What every job's shell runs first: it makes the source folder PYTHONPATH. Braces are doubled for Snakemake.

    Args:
        links: folder for a link to a source whose path has a colon, which would divide the path in two; relative
            to the folder in which jobs run.
    """
    path = _linked(source, links) if os.pathsep in str(source) else source
    return f"set -euo pipefail; export PYTHONPATH={quote(str(path))}; ".replace("{", "{{").replace("}", "}}")


def _linked(source: Path, links: Path) -> Path:
    """A link to a folder. It is replaced in one step, because another job of the cluster may be reading it."""
    link, new = links / "source", links / f"source_{os.getpid()}"
    links.mkdir(parents=True, exist_ok=True)
    new.symlink_to(source, target_is_directory=True)
    return new.replace(link)
