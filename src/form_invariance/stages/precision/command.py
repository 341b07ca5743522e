"""What a model's lower precision does to one cell's ranking."""

import argparse

from form_invariance.stages.options import add_options, add_required, add_run_arguments

HELP = "compare the ranking in a lower precision with that in float32, on a sample of prompts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--dataset", "--corrupt-table", "--attribution", output="precision table")
    add_required(parser, int, prompts="train prompts of the sample")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.attribution.candidates import read_candidates
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.model_options import model_provenance
    from form_invariance.stages.precision import compute as precision
    from form_invariance.stages.precision.table import PRECISION
    from form_invariance.stages.run import load_run
    from form_invariance.tables.files import write_table

    found = []
    for dtype in (arguments.dtype, "float32"):  # one model at a time is in memory
        own = load_run(argparse.Namespace(**{**vars(arguments), "dtype": dtype}))
        train = read_train(arguments.dataset, arguments.corrupt_table, own.tokenizer, own.model.device)
        candidates = read_candidates(arguments.attribution, own.late, own.model.device)
        found.append(precision.sample_effects(own, train, candidates, arguments.prompts))
        del own, train
    neurons = {layer: one.cpu().numpy() for layer, one in candidates.items()}
    lower, exact = found
    table = precision.compare(exact, lower, neurons).assign(dtype=arguments.dtype)
    write_table(table, arguments.output, PRECISION, model_provenance(arguments))
