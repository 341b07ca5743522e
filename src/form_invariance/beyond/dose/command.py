"""Knockout and keep-only along the dose."""

from pathlib import Path

from form_invariance.beyond.dose.compute import dose_table, run_cell
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.intervene import start
from form_invariance.experiment.means import read_means
from form_invariance.experiment.measurements import DOSE_PROMPTS
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
    recorded,
)
from form_invariance.experiment.ranked_sets import matched_in, ranked
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.dataset.prompts import eval_prompts, eval_rows
from form_invariance.stages.dataset.table import DATASET
from form_invariance.tables.files import read_table, write_table
from form_invariance.tables.keys import by_cell, keys_of


def dose(
    *,
    model: RunOptions,
    dataset: Path,
    template_mean_cache: Path,
    effects: OtherFiles,
    template_mean_caches: Files,
    membership: MembershipRule,
    k: Sizes,
    matched_seeds: MatchedSeeds,
    center_logits: Centred,
    seed: Seed,
    output: Path,
) -> None:
    """Knock out, and keep alone, the best neurons of all cells and their controls on one cell's prompts.

    Args:
        dataset: dataset table of the cell, whose eval prompts are answered
        template_mean_cache: mean cache of the cell's template
        effects: indirect effects of all cells
        template_mean_caches: mean cache of each operator's template in the format, for the neurons' variances
        output: table by prompt
    """
    settings = recorded(locals())

    run, keys = load_run(model), keys_of(dataset)
    form, operator = cell = keys["format"], keys["operator"]
    patched = read_effects(by_cell(effects), Membership(membership, seed))
    common_layers(patched, k)
    values = matched_in(form, patched, template_mean_caches, run.model, run.first)
    means = read_means(template_mean_cache, run.model)
    problems = read_table(dataset, DATASET)
    started = start(run, *eval_prompts(problems, run), center_logits)
    draws = Draws(0, matched_seeds, seed)
    runs = run_cell(started, ranked(patched), cell, sorted(set(k)), values, means, draws)
    prompts = eval_rows(problems)[["a", "b"]].reset_index(drop=True).rename_axis("index").reset_index()
    table = dose_table(started, prompts, cell, runs).drop(columns="task")
    write_table(table, output, DOSE_PROMPTS, {**settings, **of_run(run)}, {**keys, "task": operator})
