"""Keep-only and knockout of the shared circuit in one cell, with random controls."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, add_required, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(
        parser, "--dataset", "--circuit", "--mean-cache", "--random-seeds", "--matched-seeds", "--center-logits"
    )
    add_options(parser, "--bootstrap", "--seed", ranking="ranking table of the cell")
    add_required(parser, int, "+", k="circuit sizes")
    parser.add_argument("--template-mean-cache", type=Path, help="that of the template alone, tried too")
    add_options(parser, output="summary table", prompts_output="table by prompt")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.circuit.compute import read_circuits
    from form_invariance.stages.controls import Draws
    from form_invariance.stages.dataset.prompts import read_eval
    from form_invariance.stages.interventions.compute import Choices, cell
    from form_invariance.stages.interventions.table import (
        FORMAT_MEANS,
        INTERVENTIONS,
        INTERVENTIONS_PROMPTS,
        TEMPLATE_MEANS,
    )
    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.keys import common_keys

    run = load_run(arguments)
    keys = common_keys(arguments.dataset)
    paths = {FORMAT_MEANS: arguments.mean_cache, TEMPLATE_MEANS: arguments.template_mean_cache}
    summary, prompts = cell(
        run,
        *read_eval(arguments.dataset, run.tokenizer, run.model.device),
        read_circuits(arguments.circuit, arguments.k, run.late, run.width),
        read_table(arguments.ranking, RANKING),
        {name: read_means(path, run.model) for name, path in paths.items() if path},
        Choices(
            operator=keys["operator"],
            draws=Draws(arguments.random_seeds, arguments.matched_seeds, arguments.seed),
            resamples=arguments.bootstrap,
            center=arguments.center_logits,
        ),
    )
    provenance = run_provenance(arguments, run, "center_logits", "bootstrap", "seed")
    write_table(prompts, arguments.prompts_output, INTERVENTIONS_PROMPTS, provenance, keys)
    write_table(summary, arguments.output, INTERVENTIONS, provenance, keys)
