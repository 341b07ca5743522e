"""Every operator's circuit on every task."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.experiment.options import (
    Bootstrap,
    Centred,
    Files,
    MatchedSeeds,
    RunOptions,
    Seed,
    Sizes,
    recorded,
)
from form_invariance.experiment.task_options import NO_LIMITS, OperandOptions

if TYPE_CHECKING:
    from form_invariance.beyond.specificity.tasks import Task
    from form_invariance.experiment.controls import Draws, NeuronSet
    from form_invariance.experiment.means import MeanCache
    from form_invariance.experiment.run import Run

Cells = Mapping[tuple[str, str], Path]
"""Files by format and operator."""


def specificity(
    *,
    model: RunOptions,
    datasets: Files,
    rankings: Files,
    circuits: Files,
    mean_caches: Files,
    tasks: str = "{}",
    limits: OperandOptions = NO_LIMITS,
    text: Path | None = None,
    text_sha256: str | None = None,
    prompts: int,
    k: Sizes,
    matched_seeds: MatchedSeeds,
    center_logits: Centred,
    bootstrap: Bootstrap,
    seed: Seed,
    output: Path,
    contrasts_output: Path,
    prompts_output: Path,
) -> None:
    """Keep and knock out every operator's circuit on every operator, on tasks on numbers and on plain text.

    Args:
        datasets: dataset table of each cell
        rankings: ranking table of each cell
        circuits: circuit table of each operator
        mean_caches: mean cache of each cell's own template
        tasks: tasks on numbers, as JSON: by name the expression, and the templates by format
        text: plain text, UTF-8; default: a short text of the package
        text_sha256: sha256 of --text; a file with another content is refused
        prompts: prompts of a task that is no operator, at most
        output: specificity table
        contrasts_output: table of the contrasts
        prompts_output: table of the damage by prompt
    """
    settings = recorded(locals())

    import pandas as pd

    from form_invariance.beyond.specificity.compute import damages, matrix
    from form_invariance.beyond.specificity.contrasts import contrasts_table
    from form_invariance.beyond.specificity.damages import damage_by_prompt
    from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
    from form_invariance.beyond.specificity.table import SPECIFICITY, SPECIFICITY_CONTRASTS, SPECIFICITY_PROMPTS
    from form_invariance.beyond.specificity.tasks import FEWEST, number_task, read_text, text_task
    from form_invariance.experiment.controls import Draws
    from form_invariance.experiment.means import read_means
    from form_invariance.experiment.options import json_object
    from form_invariance.experiment.run import load_run, of_run
    from form_invariance.experiment.task_options import limits_of
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import by_key, common_keys, matching_cells
    from form_invariance.tables.progress import track

    given, operands = json_object(tasks, "--tasks"), limits_of(limits, "--tasks")
    run = load_run(model)
    shared = by_key(circuits, "operator")
    caches, ranked, problems = matching_cells(mean_caches=mean_caches, rankings=rankings, datasets=datasets)
    draws, most = Draws(0, matched_seeds, seed), max(FEWEST, prompts)
    plain = text_task(run, read_text(text, text_sha256) if text else PLAIN_TEXT, most)
    measured, parts, by_prompt, sets = [], [], [], {}
    for name in dict.fromkeys(name for name, _ in caches):
        means = {operator: read_means(caches[name, operator], run.model) for operator in shared}
        sets[name] = _sets(run, name, shared, k, means, ranked, draws)
        every = [*_operator_tasks(run, name, problems, means)]
        every += [
            number_task(run, task, asked["expression"], asked["templates"][name], operands, most, seed)
            for task, asked in given.items()
            if name in asked["templates"]
        ]
        every.append(plain)
        for task in track(every, len(every), f"tasks in {name}"):
            for damage in damages(run, name, task, sets[name], bootstrap, seed, center_logits):
                measured.append(damage)
                parts.append(matrix(damage, sets[name], center_logits))
                if damage.task in shared:
                    by_prompt.append(damage_by_prompt(damage, sets[name]))
    contrasts = contrasts_table(measured, sets, list(shared))
    keys, provenance = common_keys(*datasets), {**settings, **of_run(run), "text": text and str(text)}
    write_table(pd.concat(parts, ignore_index=True), output, SPECIFICITY, provenance, keys)
    every_prompt = pd.concat(by_prompt, ignore_index=True)
    write_table(every_prompt, prompts_output, SPECIFICITY_PROMPTS, provenance, keys)
    write_table(contrasts, contrasts_output, SPECIFICITY_CONTRASTS, provenance, keys)


def _operator_tasks(run: "Run", name: str, datasets: Cells, means: Mapping[str, "MeanCache"]) -> list["Task"]:
    """The operators' eval prompts in one format."""
    from form_invariance.beyond.specificity.tasks import operator_task
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.tables.files import read_table

    return [
        operator_task(run, operator, read_table(datasets[name, operator], DATASET), cache)
        for operator, cache in means.items()
    ]


def _sets(
    run: "Run",
    name: str,
    circuits: Mapping[str, Path],
    k: list[int],
    means: Mapping[str, "MeanCache"],
    rankings: Cells,
    draws: "Draws",
) -> list["NeuronSet"]:
    """Every operator's circuits, and their controls in one format."""
    from form_invariance.beyond.specificity.compute import neuron_sets
    from form_invariance.stages.circuit.compute import read_circuits
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table

    sets = []
    for operator, path in circuits.items():
        members = read_circuits(path, sorted(set(k)), run.late, run.width)
        values = {
            "variance": means[operator].late_variance(run.first),
            "effect": run.by_neuron(read_table(rankings[name, operator], RANKING), "ie_mean"),
        }
        ranked = {
            form: run.by_neuron(read_table(ranking, RANKING), "rank")
            for (form, of), ranking in rankings.items()
            if of == operator
        }
        sets += neuron_sets(operator, members, values, ranked, draws)
    return sets
