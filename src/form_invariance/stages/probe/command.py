"""Fit linear probes of the answer to the residual stream."""

import argparse

from form_invariance.stages.options import add_files, add_model_arguments, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    what = "census tables; of one format to probe every position, of several to probe the last token"
    add_files(parser, "--census", what)
    add_required(parser, int, prompts="prompts of each operator, over all formats")
    add_options(parser, "--seed", output="probe table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.contrasts import ALL
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.stages.probe import compute as probe
    from form_invariance.stages.probe.table import PROBE
    from form_invariance.tables.files import read_tables, write_table
    from form_invariance.tables.keys import by_cell, common_keys

    censuses = read_tables(by_cell(arguments.census), CENSUS)
    chosen = probe.choose_prompts(censuses, arguments.prompts, arguments.seed)
    formats = list(chosen["format"].unique())
    model, tokenizer = load_model(arguments)
    table = probe.run(model, tokenizer, chosen, arguments.seed, last_only=len(formats) > 1)
    labels = probe.token_labels(tokenizer, chosen) if len(formats) == 1 else [""]
    provenance = {
        **model_provenance(arguments, "seed"),
        "formats": formats,
        "prompts": chosen.groupby(["format", "operator"], sort=False).size().unstack().T.to_dict(),
        "test_share": probe.TEST_SHARE,
    }
    keys = {"format": ALL, **common_keys(*arguments.census)}
    tokens = table["position"].map(dict(enumerate(labels)))
    write_table(table.assign(token=tokens), arguments.output, PROBE, provenance, keys)
