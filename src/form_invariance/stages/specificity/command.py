"""Keep and knock out every operator's circuit on every operator, on copying, comparing and plain text."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from form_invariance.stages.options import (
    OPERANDS,
    add_files,
    add_options,
    add_required,
    add_run_arguments,
    operand_limits,
)

if TYPE_CHECKING:
    from form_invariance.stages.controls import NeuronSet
    from form_invariance.stages.mean_cache.compute import MeanCache
    from form_invariance.stages.run import Run
    from form_invariance.stages.specificity.tasks import Task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, *OPERANDS, "--center-logits", "--matched-seeds", "--bootstrap", "--seed")
    add_required(parser, int, "+", k="circuit sizes")
    add_files(parser, "--dataset", "dataset table of each cell")
    add_files(parser, "--rankings", "ranking table of each cell")
    add_files(parser, "--circuit", "circuit table of each operator")
    add_files(parser, "--mean-cache", "mean cache of each cell's own template")
    parser.add_argument(
        "--tasks",
        type=json.loads,
        default={},
        help="tasks on numbers: JSON, as specificity_tasks of a configuration",
    )
    parser.add_argument("--text", type=Path, help="plain text, UTF-8; default: a short text of the package")
    parser.add_argument("--text-sha256", help="sha256 of --text; a file with another content is refused")
    add_required(parser, int, prompts="prompts of a task that is no operator, at most")
    add_options(parser, output="specificity table", contrasts_output="table of the contrasts")
    add_options(parser, prompts_output="table of the damage by prompt")


def run(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.stages.specificity.compute import damages, matrix
    from form_invariance.stages.specificity.contrasts import contrasts_table
    from form_invariance.stages.specificity.damages import damage_by_prompt
    from form_invariance.stages.specificity.table import SPECIFICITY, SPECIFICITY_CONTRASTS, SPECIFICITY_PROMPTS
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import by_key, common_keys, matching_cells
    from form_invariance.tables.progress import track

    circuits = by_key(arguments.circuit, "operator")
    caches, rankings, datasets = matching_cells(
        mean_cache=arguments.mean_cache, rankings=arguments.rankings, dataset=arguments.dataset
    )
    run, center = load_run(arguments), arguments.center_logits
    text = _text(arguments, run)
    measured, parts, by_prompt, sets = [], [], [], {}
    for name in dict.fromkeys(name for name, _ in caches):
        means = {operator: read_means(caches[name, operator], run.model) for operator in circuits}
        sets[name] = _sets(arguments, run, name, circuits, means, rankings)
        tasks = [*_tasks(arguments, run, name, means, datasets), text]
        for task in track(tasks, len(tasks), f"tasks in {name}"):
            for damage in damages(run, name, task, sets[name], arguments.bootstrap, arguments.seed, center):
                measured.append(damage)
                parts.append(matrix(damage, sets[name], center))
                if damage.task in circuits:
                    by_prompt.append(damage_by_prompt(damage, sets[name]))
    contrasts = contrasts_table(measured, sets, list(circuits))
    provenance = {
        **run_provenance(
            arguments, run, "center_logits", "bootstrap", "seed", "prompts", "matched_seeds", "tasks"
        ),
        "text": arguments.text and str(arguments.text),
    }
    keys = common_keys(*arguments.dataset)
    write_table(pd.concat(parts, ignore_index=True), arguments.output, SPECIFICITY, provenance, keys)
    every_prompt = pd.concat(by_prompt, ignore_index=True)
    write_table(every_prompt, arguments.prompts_output, SPECIFICITY_PROMPTS, provenance, keys)
    write_table(contrasts, arguments.contrasts_output, SPECIFICITY_CONTRASTS, provenance, keys)


def _sets(
    arguments: argparse.Namespace,
    run: "Run",
    name: str,
    circuits: Mapping[str, Path],
    means: Mapping[str, "MeanCache"],
    rankings: Mapping[tuple[str, str], Path],
) -> list["NeuronSet"]:
    """Every operator's circuits, and their controls in one format."""
    from form_invariance.stages.circuit.compute import read_circuits
    from form_invariance.stages.controls import Draws
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.specificity.compute import neuron_sets
    from form_invariance.tables.files import read_table

    sets, draws = [], Draws(0, arguments.matched_seeds, arguments.seed)
    for operator, path in circuits.items():
        members = read_circuits(path, sorted(set(arguments.k)), run.late, run.width)
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


def _tasks(
    arguments: argparse.Namespace,
    run: "Run",
    name: str,
    means: Mapping[str, "MeanCache"],
    datasets: Mapping[tuple[str, str], Path],
) -> list["Task"]:
    """The tasks of one format: the operators, and those on numbers that have a template in it."""
    from form_invariance.problems.operands import OperandRange
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.specificity.tasks import FEWEST, number_task, operator_task
    from form_invariance.tables.files import read_table

    tasks = [
        operator_task(run, operator, read_table(datasets[name, operator], DATASET), cache)
        for operator, cache in means.items()
    ]
    limits, most = OperandRange(**operand_limits(arguments)), max(FEWEST, arguments.prompts)
    for task, asked in arguments.tasks.items():
        if template := asked["templates"].get(name):
            tasks.append(number_task(run, task, asked["expression"], template, limits, most, arguments.seed))
    return tasks


def _text(arguments: argparse.Namespace, run: "Run") -> "Task":
    """Plain text, a task that all formats share."""
    from form_invariance.stages.specificity.plain_text import PLAIN_TEXT
    from form_invariance.stages.specificity.tasks import FEWEST, read_text, text_task

    text = read_text(arguments.text, arguments.text_sha256) if arguments.text else PLAIN_TEXT
    return text_task(run, text, max(FEWEST, arguments.prompts))
