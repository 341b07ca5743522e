"""Stage 2 of the ranking of one cell: exact indirect effect of every candidate, by replay."""

import argparse

from form_invariance.stages.options import add_options, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--dataset", "--corrupt-table", "--attribution")
    add_options(parser, output="indirect effects by prompt (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.attribution.candidates import read_candidates
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.membership import to_tensors
    from form_invariance.stages.patching.compute import patch_candidates
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import write_tensors
    from form_invariance.tables.keys import common_keys

    run = load_run(arguments)
    train = read_train(arguments.dataset, arguments.corrupt_table, run.tokenizer, run.model.device)
    candidates = read_candidates(arguments.attribution, run.late, run.model.device)
    effects = patch_candidates(run, train, candidates)
    provenance = {
        **run_provenance(arguments, run),
        "n_layers": run.model.config.n_layers,
        "d_mlp": run.width,
        "corrupt_seeds": len(train.partners),
        "prompts": len(train.tokens),
    }
    keys = common_keys(arguments.dataset)
    write_tensors(to_tensors(effects, candidates), arguments.output, "indirect_effects", provenance, keys)
