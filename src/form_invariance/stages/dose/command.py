"""Dose of the cross-format transfer of one operator, in all directions."""

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

HELP = "transfer a part of the shared neurons' activations, or of the neurons"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    add_transfer_arguments(parser)
    parser.add_argument("--rankings", nargs="+", required=True, metavar="FORMAT=FILE", help="ranking tables")
    parser.add_argument("--k", type=int, required=True, help="circuit size")
    parser.add_argument("--dose", type=float, nargs="+", required=True, help="doses from 0 to 1")
    parser.add_argument("--random-seeds", type=int, default=5, help="random orders of the neurons")
    parser.add_argument("--output", type=Path, required=True, help="dose table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.dose import compute as dose
    from form_invariance.stages.dose.table import DOSE
    from form_invariance.stages.ranking.table import RANKING
    from form_invariance.stages.transfer import directions as transfer_tables
    from form_invariance.tables.files import read_table, read_tables, write_table

    censuses = read_tables(named_paths(arguments.census, "--census"), CENSUS)
    rankings = read_tables(named_paths(arguments.rankings, "--rankings"), RANKING)
    plans = transfer_tables.plan(censuses, arguments.pairs, arguments.seed, arguments.operator)
    model, tokenizer = load_model(arguments)
    shape = model.config
    first = first_late_layer(arguments, shape.n_layers)
    layers = range(first, shape.n_layers)
    orders = dose.best_first(read_table(arguments.circuit, CIRCUIT), arguments.k, rankings, layers)
    doses = sorted(set(arguments.dose))
    variants, shares = dose.dose_variants(
        orders, shape.d_mlp, doses, arguments.random_seeds, arguments.seed, arguments.operator
    )
    table = dose.dose_table(model, tokenizer, plans, variants, shares, first, arguments.center_logits)
    provenance = {
        **model_provenance(arguments),
        "first_late_layer": first,
        "center_logits": arguments.center_logits,
        "pairs": arguments.pairs,
        "dose": doses,
        "random_seeds": arguments.random_seeds,
        "seed": arguments.seed,
    }
    write_table(table.assign(k=arguments.k), arguments.output, DOSE, provenance)
