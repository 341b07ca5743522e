"""Cross-format transfer of one operator, in all directions."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import (
    add_model_arguments,
    add_transfer_arguments,
    load_model,
    model_provenance,
    named_paths,
)

HELP = "transfer the shared neurons' activations between formats"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    add_transfer_arguments(parser)
    parser.add_argument("--k", type=int, nargs="+", required=True, help="circuit sizes")
    parser.add_argument(
        "--output-folder",
        type=Path,
        required=True,
        help="receives DONOR_to_TARGET.parquet of every direction",
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import pandas as pd

    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.transfer import directions as transfer_tables
    from form_invariance.stages.transfer.table import TRANSFER
    from form_invariance.tables.files import read_table, read_tables, write_table
    from form_invariance.tables.progress import track

    censuses = read_tables(named_paths(arguments.census, "--census"), CENSUS)
    plans = transfer_tables.plan(censuses, arguments.pairs, arguments.seed, arguments.operator)
    model, tokenizer = load_model(arguments)
    first = first_late_layer(arguments, model.config.n_layers)
    variants = pd.DataFrame({"k": arguments.k})
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
            model, tokenizer, groups, donors, masks, variants, first, arguments.center_logits
        ).assign(donor=donor, target=target)
        write_table(table, arguments.output_folder / f"{donor}_to_{target}.parquet", TRANSFER, provenance)
