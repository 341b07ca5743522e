"""Ask every question about one model where its null is true: how often is the verdict yes, or no?"""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_keyed, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--interventions", "FORMAT/OPERATOR=FILE", "interventions tables of all cells")
    add_keyed(parser, "--by-prompt", "FORMAT/OPERATOR=FILE", "their tables by prompt")
    add_keyed(parser, "--dataset", "FORMAT/OPERATOR=FILE", "dataset tables of all cells")
    add_keyed(parser, "--effects", "FORMAT/OPERATOR=FILE", "indirect effects of all cells")
    parser.add_argument("--lost", type=Path, required=True, help="specificity's table by prompt")
    what = "transfer/OPERATOR/DIRECTION=FILE and transfer_pairs/OPERATOR=FILE of every operator"
    parser.add_argument("--tables", nargs="+", required=True, metavar="INPUT/KEY=FILE", help=what)
    add_required(parser, int, "+", k="circuit sizes")
    add_options(parser, "--membership", "--bootstrap", "--seed", output="table of the rates")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.interventions.table import INTERVENTIONS, INTERVENTIONS_PROMPTS
    from form_invariance.stages.membership import Membership, read_effects
    from form_invariance.stages.options import check_cells
    from form_invariance.stages.specificity.table import SPECIFICITY_PROMPTS
    from form_invariance.stages.summary.nulls import ablation_trials, overlap_trials, rates, transfer_trials
    from form_invariance.stages.summary.specific_nulls import specificity_trials
    from form_invariance.stages.summary.table import NULLS
    from form_invariance.stages.transfer.table import CONTRASTED
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.inputs import input_paths, read_inputs
    from form_invariance.tables.progress import track

    check_cells(arguments, "--interventions", "--by-prompt", "--dataset", "--effects")
    options = arguments.bootstrap, arguments.seed
    cells = {
        key: (
            read_table(path, INTERVENTIONS),
            read_table(arguments.by_prompt[key], INTERVENTIONS_PROMPTS),
            read_table(arguments.dataset[key], DATASET),
        )
        for key, path in arguments.interventions.items()
    }
    moved = read_inputs(input_paths(arguments.tables, CONTRASTED, "the nulls"), CONTRASTED)
    effects, _ = read_effects(arguments.effects, Membership(arguments.membership, arguments.seed))
    trials = [
        trial
        for some in track(
            [
                ablation_trials(cells, *options),
                transfer_trials(moved["transfer"], moved["transfer_pairs"], *options),
                overlap_trials(effects, arguments.k, *options),
                specificity_trials(read_table(arguments.lost, SPECIFICITY_PROMPTS), *options),
            ],
            4,
            "kinds of nulls",
        )
        for trial in some
    ]
    write_table(
        rates(trials), arguments.output, NULLS, settings(arguments, "k", "membership", "bootstrap", "seed")
    )
