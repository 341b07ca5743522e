"""Keep-only and knockout of one cell."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import add_center_argument, add_model_arguments, load_model, model_provenance

HELP = "keep-only and knockout of the shared circuit, with random controls"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset table of the cell")
    parser.add_argument("--circuit", type=Path, required=True, help="circuit table of the operator")
    parser.add_argument("--mean-cache", type=Path, required=True, help="mean cache of the format")
    parser.add_argument("--template-mean-cache", type=Path, help="that of the template alone, tried too")
    parser.add_argument("--ranking", type=Path, required=True, help="ranking table of the cell")
    parser.add_argument("--k", type=int, nargs="+", required=True, help="circuit sizes")
    parser.add_argument("--random-seeds", type=int, default=5, help="draws of the uniform control")
    parser.add_argument("--matched-seeds", type=int, default=2, help="draws of each matched control")
    add_center_argument(parser)
    parser.add_argument("--bootstrap", type=int, default=1000, help="resamples for the intervals")
    parser.add_argument("--seed", type=int, default=0, help="seed of the controls and of the bootstrap")
    parser.add_argument("--output", type=Path, required=True, help="summary table")
    parser.add_argument("--prompts-output", type=Path, required=True, help="table by prompt")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import pandas as pd
    import torch

    from form_invariance.stages.cells import read_eval
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.interventions import compute as interventions
    from form_invariance.stages.interventions.table import (
        FORMAT_MEANS,
        INTERVENTIONS,
        INTERVENTIONS_PROMPTS,
        TEMPLATE_MEANS,
    )
    from form_invariance.stages.mean_cache.compute import MeanCache, read_means
    from form_invariance.stages.ranking.table import RANKING
    from form_invariance.tables.files import provenance_of, read_table, write_table

    model, tokenizer = load_model(arguments)
    layers, width = model.config.n_layers, model.config.d_mlp
    first = first_late_layer(arguments, layers)
    tokens, answers = read_eval(arguments.dataset, tokenizer, model.device)
    means = read_means(arguments.mean_cache, model)
    circuit = read_table(arguments.circuit, CIRCUIT)
    effects = interventions.effects_of(read_table(arguments.ranking, RANKING), first, layers, width)
    sets = interventions.neuron_sets(
        {k: interventions.circuit_members(circuit, k, first, layers, width) for k in arguments.k},
        torch.stack(means.variance[first:]).float().cpu().numpy(),
        effects,
        arguments.random_seeds,
        arguments.matched_seeds,
        arguments.seed,
        provenance_of(arguments.dataset)["operator"],
    )
    bos = tokenizer.bos is not None
    center = arguments.center_logits

    def tables(
        tried: list[interventions.NeuronSet], own: MeanCache, name: str
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        runs = interventions.run_cell(model, tokens, answers, tried, own, first, bos, center)
        return interventions.cell_tables(runs, tried, name, center, arguments.bootstrap, arguments.seed)

    parts = [tables(sets, means, FORMAT_MEANS)]
    if arguments.template_mean_cache:
        by_template = read_means(arguments.template_mean_cache, model)
        parts.append(tables(interventions.also_by_template(sets), by_template, TEMPLATE_MEANS))
    summary, prompts = (pd.concat(pieces, ignore_index=True) for pieces in zip(*parts, strict=True))
    provenance = {
        **model_provenance(arguments),
        "first_late_layer": first,
        "center_logits": center,
        "bootstrap": arguments.bootstrap,
        "seed": arguments.seed,
    }
    write_table(prompts, arguments.prompts_output, INTERVENTIONS_PROMPTS, provenance)
    write_table(summary, arguments.output, INTERVENTIONS, provenance)
