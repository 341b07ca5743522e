"""Knockout on tasks that are no operators."""

from dataclasses import asdict
from pathlib import Path

import pandas as pd

from form_invariance.beyond.specificity.compute import sets_of, task_rows
from form_invariance.beyond.specificity.plain_text import PLAIN_TEXT
from form_invariance.beyond.specificity.tasks import other_task, read_text, text_task
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.measurements import SPECIFICITY_PROMPTS
from form_invariance.experiment.membership import Membership, common_layers, read_effects
from form_invariance.experiment.options import (
    Centred,
    Files,
    MatchedSeeds,
    MembershipRule,
    OtherFiles,
    RunOptions,
    Seed,
    Sizes,
    json_object,
    recorded,
)
from form_invariance.experiment.other_tasks import MOST
from form_invariance.experiment.ranked_sets import matched_in, ranked
from form_invariance.experiment.run import load_run, of_run
from form_invariance.experiment.task_options import NO_LIMITS, OperandOptions, limits_of
from form_invariance.problems.configured import task_of
from form_invariance.tables.files import write_table
from form_invariance.tables.keys import by_cell, common_keys
from form_invariance.tables.progress import track


def specificity(
    *,
    model: RunOptions,
    effects: OtherFiles,
    template_mean_caches: Files,
    tasks: str = "{}",
    limits: OperandOptions = NO_LIMITS,
    text: Path | None = None,
    text_sha256: str | None = None,
    prompts: int,
    membership: MembershipRule,
    k: Sizes,
    matched_seeds: MatchedSeeds,
    center_logits: Centred,
    seed: Seed,
    output: Path,
) -> None:
    """Knock out every operator's neurons on other tasks, and on plain text, in one format.

    Args:
        effects: indirect effects of all cells
        template_mean_caches: mean cache of each operator's template in the format
        tasks: other tasks, as JSON: what each asks, and its templates by format, as in a configuration
        text: plain text, UTF-8; default: a short text of the package
        text_sha256: sha256 of --text; a file with another content is refused
        prompts: largest number of right answers of a task; never fewer than 40
        output: table by prompt
    """
    settings = recorded(locals())

    configured_tasks, operands = json_object(tasks, "--tasks"), limits_of(limits, "--tasks")
    run, keys = load_run(model), common_keys(*template_mean_caches)
    form, most = keys["format"], max(MOST, prompts)
    patched = read_effects(by_cell(effects), Membership(membership, seed))
    common_layers(patched, k)
    values = matched_in(form, patched, template_mean_caches, run.model, run.first)
    sets = sets_of(ranked(patched), sorted(set(k)), form, values, Draws(0, matched_seeds, seed))
    plain = text_task(run, read_text(text, text_sha256) if text else PLAIN_TEXT, most)
    others = [
        other_task(run, name, task_of(configured, asdict(operands)), configured["templates"][form], most, seed)
        for name, configured in configured_tasks.items()
        if form in configured["templates"]
    ]
    tracked_tasks = track([*others, plain], len(others) + 1, "tasks")
    parts = [rows for task in tracked_tasks for rows in task_rows(run, task, sets, center_logits)]
    provenance = {**settings, **of_run(run), "text": text and str(text)}
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*SPECIFICITY_PROMPTS.columns])
    write_table(table, output, SPECIFICITY_PROMPTS, provenance, keys)
