"""Options that several commands share, as types. This module imports nothing of the stages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from form_invariance.errors import UserError
from form_invariance.tables.lineage import OfAnyCell, OfAnyModel

Files = tuple[Path, ...]
"""Any number of files, of the same formats and operators as those of the other options."""
OtherFiles = Annotated[Files, OfAnyCell]
"""Files that may be of other formats and operators."""
FilesOfModels = Annotated[Files, OfAnyModel]
"""Files that may be of several models."""
Seed = Annotated[int, Parameter(help="seed of every random choice")]
Sizes = Annotated[list[int], Parameter(help="circuit sizes")]
Size = Annotated[int, Parameter(help="circuit size")]
Bootstrap = Annotated[int, Parameter(help="bootstrap resamples for the intervals")]
Centred = Annotated[bool, Parameter(help="centre logits over the vocabulary")]
RandomSeeds = Annotated[int, Parameter(help="draws of the uniform random control")]
MatchedSeeds = Annotated[int, Parameter(help="draws of each matched control")]
MembershipRule = Annotated[
    Literal["positive", "top_k"], Parameter(help="which neurons of the top k are members of its set")
]
Ranking = Annotated[
    Literal["effect", "probability"],
    Parameter(help="what ranks the neurons: the indirect effect, or the fall of the right answer's probability"),
]
Precision = Literal["float32", "tf32", "bfloat16"]
Flag = Annotated[bool, Parameter(negative=())]
"""False unless it is given."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Source:
    """Which model it is."""

    model: str
    """embedded:NAME, a Hugging Face folder, a GGUF file, or a hub id"""
    revision: str | None = None
    """hub branch, tag or commit"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOptions(Source):
    """Which model runs, and how."""

    model_files: Path | None = None
    """digests of the model's files (command model-files), to check them against"""
    dtype: Precision = "float32"
    """precision; default: float32"""
    readout: Literal["near", "full"] = "near"
    """how a patch's log-probabilities are read out: full sums the whole vocabulary each time; default: near"""
    device: str = "auto"
    """auto (the default: a GPU where there is one), or a torch device such as cpu or cuda:0"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions(ModelOptions):
    """Which model runs, and where its late layers begin."""

    late_from: str
    """first late layer: half_depth (deduced) or a number"""


def recorded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a table records of the command that made it: the values of its parameters that are not files.

    Args:
        parameters: values by name, as `locals()` gives them in a command's first line.
    """
    settings: dict[str, Any] = {}
    for name, value in parameters.items():
        if is_dataclass(value) and not isinstance(value, type):
            settings |= recorded(vars(value))
        elif not isinstance(value, (Path, tuple)):
            settings[name] = value
    return settings


def json_object(text: str, option: str) -> dict[str, Any]:
    """The object that a JSON text holds.

    Raises:
        UserError: the text is not JSON, or not an object.
    """
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise UserError(f"{option}: {text!r} is not JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise UserError(f"{option}: {text!r} must be a JSON object")
    return parsed
