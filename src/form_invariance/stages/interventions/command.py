"""Keep-only and knockout in one cell."""

from pathlib import Path

from form_invariance.experiment.controls import Draws
from form_invariance.experiment.means import read_means
from form_invariance.experiment.measurements import FORMAT_MEANS, INTERVENTIONS_PROMPTS, TEMPLATE_MEANS
from form_invariance.experiment.options import (
    Bootstrap,
    Centred,
    MatchedSeeds,
    RandomSeeds,
    RunOptions,
    Seed,
    Sizes,
    recorded,
)
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.circuit.compute import read_circuits, read_halves
from form_invariance.stages.dataset.prompts import eval_prompts, eval_rows
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.interventions.compute import Choices, cell
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_table, write_table
from form_invariance.tables.keys import common_keys


def interventions(
    *,
    model: RunOptions,
    dataset: Path,
    circuit: Path,
    circuit_halves: Path,
    format_mean_cache: Path,
    template_mean_cache: Path | None = None,
    ranking_table: Path,
    k: Sizes,
    random_seeds: RandomSeeds,
    matched_seeds: MatchedSeeds,
    center_logits: Centred,
    bootstrap: Bootstrap,
    seed: Seed,
    output: Path,
    prompts_output: Path,
) -> None:
    """Keep the shared circuit alone and knock it out in one cell, with random controls.

    Args:
        circuit_halves: the circuit by either half of the train prompts
        format_mean_cache: mean cache of the format
        template_mean_cache: mean cache of the template; the circuits are also ablated to its means
        output: summary table
        prompts_output: table by prompt
    """
    settings = recorded(locals())

    keys, run, problems = common_keys(dataset), load_run(model), read_table(dataset, DATASET)
    paths = {FORMAT_MEANS: format_mean_cache, TEMPLATE_MEANS: template_mean_cache}
    summary, prompts = cell(
        run,
        *eval_prompts(problems, run),
        read_circuits(circuit, k, run.late, run.width),
        read_halves(circuit_halves, k, run.late, run.width),
        read_table(ranking_table, RANKING),
        {name: read_means(path, run.model) for name, path in paths.items() if path},
        Choices(keys["operator"], Draws(random_seeds, matched_seeds, seed), bootstrap, center_logits),
    )
    prompts = prompts.join(eval_rows(problems).set_index("index")[["a", "b"]], on="index")
    prompts = prompts.assign(task=keys["operator"], donor="")
    provenance = {**settings, **of_run(run)}
    write_table(prompts, prompts_output, INTERVENTIONS_PROMPTS, provenance, keys)
    write_table(summary, output, INTERVENTIONS, provenance, keys)
