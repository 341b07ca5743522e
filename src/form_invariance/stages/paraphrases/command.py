"""Overlap of the circuits of two wordings, and of two formats, for one operator."""

import argparse
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import add_effects_arguments, named_paths, read_effects

HELP = "how far the top-k neurons of a format's paraphrases overlap, beside those of two formats"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_effects_arguments(parser)
    parser.add_argument(
        "--variant-effects",
        nargs="+",
        required=True,
        metavar="FORMAT=FILE",
        help="indirect effects of the variants, of the formats that have some",
    )
    parser.add_argument("--bootstrap", type=int, default=200, help="resamples for the intervals")
    parser.add_argument("--seed", type=int, default=0, help="seed of the resamples and halves")
    parser.add_argument("--output", type=Path, required=True, help="variants table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.paraphrases import compute as variant_overlap
    from form_invariance.stages.paraphrases.table import CANONICAL, VARIANTS
    from form_invariance.tables.files import read_tensors, write_table

    cells, models = read_effects(arguments)
    formats = {name: {CANONICAL: variant_overlap.canonical(cell)} for name, cell in cells.items()}
    texts = {}
    for name, path in named_paths(arguments.variant_effects, "--variant-effects").items():
        tensors, provenance = read_tensors(path, "variant_effects")
        if name not in cells or (provenance["model"], provenance["prompts"]) != (
            models[name],
            cells[name].prompts,
        ):
            raise UserError(f"--variant-effects: {path} does not belong to the effects of format {name}")
        own, *others = provenance["final_tokens"]
        formats[name] = {CANONICAL: variant_overlap.canonical(cells[name], own)}
        formats[name] |= variant_overlap.variants_from(tensors, cells[name].width, others)
        texts[name] = provenance["variants"]
    ks = sorted(set(arguments.k))
    table = variant_overlap.variants_table(formats, ks, arguments.bootstrap, arguments.seed)
    settings = {"models": models, "k": ks, "bootstrap": arguments.bootstrap, "seed": arguments.seed}
    write_table(table, arguments.output, VARIANTS, {**settings, "variants": texts})
