"""Try wordings and worked examples on a model, and write a configuration that runs."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_keyed, add_model_arguments, add_options, settings

_DEFAULTS = {"revision": None, "dtype": "float32", "readout": "near", "device": "auto"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--table",
        type=Path,
        nargs="+",
        default=[],
        help="CSV files; the column `answer`, or else the last one, has the answers; default: arithmetic",
    )
    add_keyed(
        parser,
        "--template",
        "FORMAT/OPERATOR=TEMPLATE",
        "wordings in place of those of a format; a table's operator is the name of its file",
        required=False,
    )
    parser.add_argument("--minutes", type=float, default=60, help="time of the experiment; default: 60")
    parser.add_argument(
        "--tflops",
        type=float,
        help="rate of the machine of the experiment, in 1e12 operations per second; default: measured here",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice")
    add_options(parser, output="configuration file")


def run(arguments: argparse.Namespace) -> None:
    from tempfile import TemporaryDirectory

    from form_invariance.errors import UserError
    from form_invariance.scouting import proposal, questions, sizes, writing
    from form_invariance.scouting.choice import search
    from form_invariance.stages.model_options import load_model
    from form_invariance.tables.files import write_text
    from form_invariance.workflow.config_check import check, load
    from form_invariance.workflow.paths import default_folder
    from form_invariance.workflow.undefined import undefined_verdicts

    output, seed, longest = arguments.output, arguments.seed, 60 * arguments.minutes
    schema = load(default_folder() / "schemas/config.schema.yaml")
    if not longest > 0 or (arguments.tflops is not None and not arguments.tflops > 0):
        raise UserError("--minutes and --tflops must be above 0")
    tables = questions.of_files(arguments.table)
    copies = {one.operator: output.with_name(f"{output.stem}_{one.operator}.csv") for one in tables}
    for path in (output, *copies.values()):
        if path.exists():
            raise UserError(f"--output: {path} exists; name another file, or remove it")
    model, tokenizer = load_model(arguments)
    levels = questions.levels(tokenizer, tables, arguments.template)
    asked, trials = search(model, tokenizer, levels, seed, lambda one: print(writing.table(one), flush=True))
    chosen = trials[trials["chosen"]]
    speed = arguments.tflops * 1e12 if arguments.tflops else sizes.machine_rate(model)
    texts = proposal.tables_without_examples(asked, chosen, seed)
    files = {operator: copies[operator] for operator in texts}
    given = {"source": arguments.model} | {
        key: value for key, value in settings(arguments, *_DEFAULTS).items() if value != _DEFAULTS[key]
    }
    with TemporaryDirectory() as folder:
        drafts = {operator: Path(folder) / path.name for operator, path in files.items()}
        for operator, path in drafts.items():
            path.write_text(texts[operator], encoding="utf-8")
        censuses = proposal.censuses(model, tokenizer, asked, chosen, drafts, seed)
        text, config, seconds = proposal.fit(
            proposal.Experiment(given, model.config, asked, chosen, files, seed), censuses, speed, longest
        )
        for operator, path in drafts.items():
            config["operators"][operator]["table"] = str(path)
        check(config, schema)
        warnings = list(undefined_verdicts(config))
    for operator, path in files.items():
        write_text(path, texts[operator])
    minutes = f"about {seconds / 60:.0f} minutes at {speed / 1e12:.2g} TFLOP/s"
    results = f"results/{writing.model_name(output.stem)}"
    folder = f"# Folder of all that it writes.\nresults: {results}"
    write_text(output, f"# Written by scout. Estimated time of the experiment: {minutes}.\n{folder}\n\n{text}")
    late = (
        "" if seconds <= longest else f"; the quickest experiment is longer than --minutes {arguments.minutes:g}"
    )
    print(f"Wrote {', '.join(map(str, [output, *files.values()]))}: {minutes}{late}.")
    print(*(f"Warning: {sentence}" for sentence in warnings), f"Run it: snakemake --configfile {output}", sep="\n")
    print(f"The answers will be in {results}/report.html")
