"""Stage 2 of the ranking of one cell."""

from pathlib import Path

from form_invariance.experiment.options import RunOptions, recorded


def patching(*, model: RunOptions, dataset: Path, corrupt_table: Path, attribution: Path, output: Path) -> None:
    """Compute the exact indirect effect of every candidate in one cell, by replay.

    Args:
        corrupt_table: corrupt partners of the cell
        output: indirect effects by prompt (safetensors)
    """
    settings = recorded(locals())

    from form_invariance.experiment.membership import to_tensors
    from form_invariance.experiment.run import load_run, of_run
    from form_invariance.stages.attribution.candidates import read_candidates
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.patching.compute import patch_candidates
    from form_invariance.tables.files import write_tensors
    from form_invariance.tables.keys import common_keys

    run = load_run(model)
    train = read_train(dataset, corrupt_table, run.tokenizer, run.model.device)
    candidates = read_candidates(attribution, run.late, run.model.device)
    effects = patch_candidates(run, train, candidates)
    provenance = {
        **settings,
        **of_run(run),
        "n_layers": run.model.config.n_layers,
        "d_mlp": run.width,
        "corrupt_seeds": len(train.partners),
        "prompts": len(train.tokens),
    }
    write_tensors(to_tensors(effects, candidates), output, "indirect_effects", provenance, common_keys(dataset))
