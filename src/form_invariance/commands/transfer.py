"""Cross-format transfer of one operator, in all directions."""

import argparse
from pathlib import Path

from form_invariance.commands.arguments import (
    add_late_arguments,
    add_model_arguments,
    load_model,
    model_provenance,
    named_paths,
)

HELP = "transfer the shared neurons' activations between formats"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    parser.add_argument("--operator", required=True, help="the operator's name, for the seeded choices")
    parser.add_argument(
        "--census", nargs="+", required=True, metavar="FORMAT=FILE", help="census tables of the operator"
    )
    parser.add_argument("--circuit", type=Path, required=True, help="circuit table of the operator")
    parser.add_argument("--k", type=int, nargs="+", required=True, help="circuit sizes")
    parser.add_argument("--pairs", type=int, default=600, help="at most so many pairs a direction")
    parser.add_argument(
        "--center-logits",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="centre over the vocabulary",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples and of the random neurons")
    parser.add_argument(
        "--output-folder",
        type=Path,
        required=True,
        help="receives DONOR_to_TARGET.parquet of every direction",
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance import transfer_tables
    from form_invariance.late_layers import first_late_layer
    from form_invariance.progress import track
    from form_invariance.schemas import CENSUS, CIRCUIT, TRANSFER
    from form_invariance.tables_io import read_table, write_table

    censuses = {name: read_table(path, CENSUS) for name, path in named_paths(arguments.census, "--census").items()}
    plans = transfer_tables.plan(censuses, arguments.pairs, arguments.seed, arguments.operator)
    model, tokenizer = load_model(arguments)
    first = first_late_layer(arguments.late_from, model.config.n_layers, named_paths(arguments.probes, "--probes"))
    masks = transfer_tables.circuit_masks(
        model, read_table(arguments.circuit, CIRCUIT), arguments.k, first, arguments.seed, arguments.operator
    )
    donors = transfer_tables.run_donors(model, tokenizer, plans, first)
    provenance = {
        **model_provenance(arguments),
        "first_late_layer": first,
        "center_logits": arguments.center_logits,
        "pairs": arguments.pairs,
        "seed": arguments.seed,
    }
    for (donor, target), groups in track(plans.items(), len(plans), "directions"):
        table = transfer_tables.direction_table(
            model, tokenizer, groups, donors, masks, arguments.k, first, arguments.center_logits
        ).assign(donor=donor, target=target)
        write_table(table, arguments.output_folder / f"{donor}_to_{target}.parquet", TRANSFER, provenance)
