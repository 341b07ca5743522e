"""Effects of single neurons."""

from pathlib import Path

from form_invariance.beyond.neuron_effects import compute
from form_invariance.beyond.neuron_effects.table import NEURON_EFFECTS
from form_invariance.experiment.means import read_means
from form_invariance.experiment.options import RunOptions, Size, recorded
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.dataset.prompts import eval_prompts
from form_invariance.stages.dataset.table import DATASET
from form_invariance.tables.files import read_table, write_table
from form_invariance.tables.keys import common_keys


def neuron_effects(
    *,
    model: RunOptions,
    dataset: Path,
    circuit: Path,
    format_mean_cache: Path,
    k: Size,
    output: Path,
) -> None:
    """Knock out each shared neuron of one cell alone.

    Args:
        format_mean_cache: mean cache of the format
        output: table of the neurons
    """
    settings = recorded(locals())

    run = load_run(model)
    tokens, answers = eval_prompts(read_table(dataset, DATASET), run)
    members = circuit_members(read_table(circuit, CIRCUIT), k, run.late, run.width)
    means = read_means(format_mean_cache, run.model)
    table = compute.neuron_effects(run, tokens, answers, members, means)
    provenance = {**settings, **of_run(run), "prompts": len(tokens)}
    write_table(table, output, NEURON_EFFECTS, provenance, common_keys(dataset))
