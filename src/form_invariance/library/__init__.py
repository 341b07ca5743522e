"""The engine in a notebook or a script, without the workflow: tables in, tables out (docs/library.md).

Every function calls what the stage of the same purpose calls. A set of prompts is a table with the columns
`prompt` and `answer_token` (`make_prompts`, which adds what they were made for); a set of neurons is a table with
the columns `layer` and `neuron`.
"""

from form_invariance.library.effects import attribution as attribution
from form_invariance.library.effects import exact_effects as exact_effects
from form_invariance.library.interventions import keep_only as keep_only
from form_invariance.library.interventions import knock_out as knock_out
from form_invariance.library.interventions import mean_activations as mean_activations
from form_invariance.library.interventions import transfer as transfer
from form_invariance.library.models import load_model as load_model
from form_invariance.library.prompts import answer as answer
from form_invariance.library.prompts import make_prompts as make_prompts
from form_invariance.library.scouting import scout as scout
