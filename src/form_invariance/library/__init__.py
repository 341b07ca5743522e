"""The engine in a notebook or a script, without the workflow: tables in, tables out (docs/library.md).

Every function calls what the stage of the same purpose calls. A set of prompts is a table with the columns
`prompt` and `answer_token` (`make_prompts`); a set of neurons is a table with the columns `layer` and `neuron`.
"""

from form_invariance.library.effects import attribution, exact_effects
from form_invariance.library.interventions import keep_only, knock_out, mean_activations, transfer
from form_invariance.library.prompts import answer, load_model, make_prompts

__all__ = [
    "answer",
    "attribution",
    "exact_effects",
    "keep_only",
    "knock_out",
    "load_model",
    "make_prompts",
    "mean_activations",
    "transfer",
]
