"""The folders of the stages, which lie in several rooms of the package."""

from functools import cache
from pathlib import Path

from form_invariance.errors import UserError

ROOMS = ("stages", "beyond", "verdicts")
_PACKAGE = Path(__file__).parent


@cache
def stage_folders() -> dict[str, Path]:
    """The folder of each stage."""
    return {path.parent.name: path.parent for room in ROOMS for path in sorted((_PACKAGE / room).glob("*/*.py"))}


def parts(part: str) -> dict[str, str]:
    """The names within the package of the stages' modules of one kind, for instance ``stages.overlap.figure``."""
    return {
        stage: f"{folder.parent.name}.{stage}.{part}"
        for stage, folder in stage_folders().items()
        if (folder / f"{part}.py").exists()
    }


def part_of(stage: str, part: str) -> str:
    """The name of a stage's module among `parts`.

    Raises:
        UserError: no stage of this name has such a module.
    """
    having = parts(part)
    if stage not in having:
        raise UserError(f"{part}: {stage!r} is not a stage with a {part}; these are {', '.join(sorted(having))}")
    return having[stage]
