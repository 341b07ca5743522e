"""Does a language model compute arithmetic with the same neurons whatever the form of the problem?"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from form_invariance.library import (
        answer,
        attribution,
        exact_effects,
        keep_only,
        knock_out,
        load_model,
        make_prompts,
        mean_activations,
        scout,
        transfer,
    )

# Threads that spin while they wait take a busy machine's cores from each other; PyTorch reads this when it starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.3.0"
__all__ = [
    "answer",
    "attribution",
    "exact_effects",
    "keep_only",
    "knock_out",
    "load_model",
    "make_prompts",
    "mean_activations",
    "scout",
    "transfer",
]


def __getattr__(name: str) -> Any:
    """The library's functions, imported when they are first used: a command must not wait for libraries."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # No import statement: every stage would seem to need the library (`workflow.source_digest`).
    return getattr(import_module("form_invariance.library"), name)
