"""Every operator's circuit on every task."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.experiment.options import (
    Bootstrap,
    Centred,
    Files,
    MatchedSeeds,
    MembershipRule,
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
    from form_invariance.experiment.membership import Effects
    from form_invariance.experiment.run import Run

Cells = Mapping[tuple[str, str], Path]
"""Files by format and operator."""


def specificity(
    *,
    model: RunOptions,
    datasets: Files,
    effects: Files,
    circuits: Files,
    circuit_halves: Files,
    mean_caches: Files,
    tasks: str = "{}",
    limits: OperandOptions = NO_LIMITS,
    text: Path | None = None,
    text_sha256: str | None = None,
    prompts: int,
    membership: MembershipRule,
    k: Sizes,
    matched_seeds: MatchedSeeds,
    center_logits: Centred,
    bootstrap: Bootstrap,
    seed: Seed,
    output: Path,
    prompts_output: Path,
) -> None:
    """Keep and knock out every operator's circuit on every operator, on tasks on numbers and on plain text.

    Args:
        datasets: dataset table of each cell
        effects: indirect effects of each cell
        circuits: circuit table of each operator
        circuit_halves: the same by either half of the train prompts
        mean_caches: mean cache of each cell's own template
        tasks: other tasks, as JSON: what each asks, and its templates by format, as in a configuration
        text: plain text, UTF-8; default: a short text of the package
        text_sha256: sha256 of --text; a file with another content is refused
        prompts: right answers of a task that is no operator, at most; at least 40 are wanted
        output: specificity table
        prompts_output: table by prompt
    """
    settings = recorded(locals())

    from dataclasses import asdict

    import pandas as pd

    from form_invariance.beyond.specificity.compute import damages, matrix
    from form_invariance.beyond.specificity.damages import INTERVENTIONS, measured_prompts
    from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
    from form_invariance.beyond.specificity.table import MOST, SPECIFICITY
    from form_invariance.beyond.specificity.tasks import other_task, read_text, text_task
    from form_invariance.experiment.controls import Draws
    from form_invariance.experiment.intervention_kinds import KNOCKOUT
    from form_invariance.experiment.means import read_means
    from form_invariance.experiment.measurements import SPECIFICITY_PROMPTS
    from form_invariance.experiment.membership import Membership, read_effects
    from form_invariance.experiment.options import json_object
    from form_invariance.experiment.run import load_run, of_run
    from form_invariance.experiment.task_options import limits_of
    from form_invariance.problems.configured import task_of
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import by_key, common_keys, matching_cells
    from form_invariance.tables.progress import track

    given, operands = json_object(tasks, "--tasks"), limits_of(limits, "--tasks")
    run = load_run(model)
    shared, by_half = by_key(circuits, "operator"), by_key(circuit_halves, "operator")
    caches, patched, problems = matching_cells(mean_caches=mean_caches, effects=effects, datasets=datasets)
    rule = Membership(membership, seed)
    ranked = {
        operator: read_effects({name: path for (name, of), path in patched.items() if of == operator}, rule)
        for operator in shared
    }
    draws, most = Draws(0, matched_seeds, seed), max(MOST, prompts)
    plain = text_task(run, read_text(text, text_sha256) if text else PLAIN_TEXT, most)
    parts: list[pd.DataFrame] = []
    by_prompt: list[pd.DataFrame] = []
    sets = {}
    for name in dict.fromkeys(name for name, _ in caches):
        means = {operator: read_means(caches[name, operator], run.model) for operator in shared}
        others = [task for task, asked in given.items() if name in asked["templates"]]
        sets[name] = _sets(run, name, shared, by_half, k, means, ranked, draws, others)
        every = [*_operator_tasks(run, name, problems, means)]
        every += [
            other_task(run, task, task_of(asked, asdict(operands)), asked["templates"][name], most, seed)
            for task, asked in given.items()
            if task in others
        ]
        every.append(plain)
        for task in track(every, len(every), f"tasks in {name}"):
            # What else the neurons compute is asked by knockout alone.
            done = INTERVENTIONS if task.name in shared else (KNOCKOUT,)
            for damage in damages(run, name, task, sets[name], bootstrap, seed, center_logits, done):
                parts.append(matrix(damage, sets[name], center_logits))
                if damage.before:
                    by_prompt += measured_prompts(damage, sets[name])
    keys, provenance = common_keys(*datasets), {**settings, **of_run(run), "text": text and str(text)}
    write_table(pd.concat(parts, ignore_index=True), output, SPECIFICITY, provenance, keys)
    every_prompt = pd.concat(by_prompt, ignore_index=True)
    write_table(every_prompt, prompts_output, SPECIFICITY_PROMPTS, provenance, keys)


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
    halves: Mapping[str, Path],
    k: list[int],
    means: Mapping[str, "MeanCache"],
    effects: Mapping[str, Mapping[str, "Effects"]],
    draws: "Draws",
    others: list[str],
) -> list["NeuronSet"]:
    """Every operator's circuits, every format's best neurons, and their controls in one format.

    Args:
        effects: by operator and format.
        others: tasks that are no operators.
    """
    import numpy as np

    from form_invariance.beyond.specificity.neuron_sets import best_sets, circuit_sets
    from form_invariance.stages.circuit.compute import read_circuits, read_halves

    sets, sizes, late = [], sorted(set(k)), (run.late, run.width)
    for operator, path in circuits.items():
        effect = np.stack([effects[operator][name].means(layer) for layer in run.late])
        values = {"variance": means[operator].late_variance(run.first), "effect": effect}
        shared, by_half = read_circuits(path, sizes, *late), read_halves(halves[operator], sizes, *late)
        sets += circuit_sets(operator, shared, by_half, values, draws)
        sets += best_sets(operator, name, effects[operator], sizes, values, draws, list(circuits), others)
    return sets
