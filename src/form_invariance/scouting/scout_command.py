"""Try wordings and worked examples on a model, and write a configuration that runs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from form_invariance.errors import UserError
from form_invariance.stages.options import add_model_arguments, add_options, settings

if TYPE_CHECKING:
    from form_invariance.scouting.questions import Question

_DEFAULTS = {"revision": None, "dtype": "float32", "readout": "near", "device": "auto"}


_TEMPLATE = "FORMAT/OPERATOR=TEMPLATE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    several: dict[str, Any] = {"action": "extend", "nargs": "+", "default": []}
    parser.add_argument(
        "--table",
        type=Path,
        **several,
        help="CSV files; the column `answer`, or else the last one, has the answers; default: arithmetic",
    )
    parser.add_argument(
        "--template",
        metavar=_TEMPLATE,
        **several,
        help="wordings to try instead of a format's own; a table's operator has the name of its file; the prompt "
        "ends before {answer}, if that is given, and in worked examples the text after it follows the answer: "
        """code/capitals='CAPITALS["{country}"] = "{answer}"'""",
    )
    parser.add_argument(
        "--examples",
        default="same",
        help="worked examples of each prompt: a number; same (the default): the best of 0, 1, 2 and 4 for all "
        "formats together; or each: the best for each format and operator",
    )
    parser.add_argument("--minutes", type=float, default=60, help="time of the experiment; default: 60")
    parser.add_argument(
        "--tflops",
        type=float,
        help="rate of the machine of the experiment, in 1e12 operations per second; default: measured here",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice")
    parser.add_argument("--force", action="store_true", help="replace the output, and its copies of tables")
    add_options(parser, output="configuration file")


def _templates(items: list[str]) -> dict[tuple[str, str], list[str]]:
    """The wordings that are given, by format and operator."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in dict.fromkeys(items):
        cell, _, text = item.partition("=")
        form, _, operator = cell.partition("/")
        if not (form and operator and text) or "/" in operator:
            raise UserError(f"--template: {item!r} must have the form {_TEMPLATE}")
        found.setdefault((form, operator), []).append(text)
    return found


def _check(arguments: argparse.Namespace, tables: "list[Question]", files: list[Path]) -> None:
    """Refuse, before the model is loaded, what no configuration can have.

    Args:
        files: that may be written.
    """
    from form_invariance.scouting.writing import model_name
    from form_invariance.workflow.names import check_name

    if not arguments.minutes > 0 or (arguments.tflops is not None and not arguments.tflops > 0):
        raise UserError("--minutes and --tflops must be above 0")
    if arguments.seed < 0:
        raise UserError(f"--seed: {arguments.seed} must be 0 or larger")
    check_name(model_name(arguments.model), "models", "--model")
    for path, table in zip(arguments.table, tables, strict=True):
        check_name(table.operator, "operators", f"--table: {path} gives the operator its name")
    for form, _ in _templates(arguments.template):
        check_name(form, "formats", "--template")
    for path in files:
        if path.is_dir() or path.resolve() in [table.resolve() for table in arguments.table]:
            raise UserError(f"--output: {path} is a folder or an input; name another file")
        if path.exists() and not arguments.force:
            raise UserError(f"--output: {path} exists; name another file, or replace it with --force")


def run(arguments: argparse.Namespace) -> None:
    from tempfile import TemporaryDirectory

    from form_invariance.scouting import choice, proposal, questions, sizes, writing
    from form_invariance.stages.model_options import load_model
    from form_invariance.tables.files import write_text
    from form_invariance.workflow.config_check import check, load
    from form_invariance.workflow.paths import default_folder
    from form_invariance.workflow.undefined import undefined_verdicts

    output, seed, examples = arguments.output, arguments.seed, arguments.examples
    schema = load(default_folder() / "schemas/config.schema.yaml")
    tables = questions.of_files(arguments.table, choice.counts_of(examples)[-1])
    copies = {one.operator: output.with_name(f"{output.stem}_{one.operator}.csv") for one in tables}
    _check(arguments, tables, [output, *copies.values()])
    model, tokenizer = load_model(arguments)
    levels = questions.levels(tokenizer, tables, _templates(arguments.template))
    asked, trials = choice.search(
        model, tokenizer, levels, seed, examples, lambda one: print(writing.table(one), flush=True)
    )
    chosen = trials[trials["chosen"]]
    level = chosen["level"].iloc[0]
    left_out = choice.left_out(trials[trials["level"] == level], chosen, examples) + questions.unasked(
        levels[level]
    )
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
            proposal.Experiment(given, model.config, asked, chosen, files, seed),
            censuses,
            speed,
            60 * arguments.minutes,
        )
        for operator, path in drafts.items():
            config["operators"][operator]["table"] = str(path)
        check(config, schema)
        warnings = list(undefined_verdicts(config))
    for operator, path in files.items():
        write_text(path, texts[operator])
    minutes = f"about {seconds / 60:.0f} minutes at {speed / 1e12:.2g} TFLOP/s"
    results = f"results/{writing.model_name(output.stem)}"
    opening = [f"Written by scout. Estimated time of the experiment: {minutes}."]
    opening += [f"Left out: {sentence}." for sentence in left_out]
    opening += ["Folder of all that it writes."]
    write_text(output, "\n".join([*(f"# {line}" for line in opening), f"results: {results}", "", text]))
    late = (
        ""
        if seconds <= 60 * arguments.minutes
        else f"; the quickest experiment is longer than --minutes {arguments.minutes:g}"
    )
    print(*(f"Left out: {sentence}." for sentence in left_out), sep="\n")
    print(f"Wrote {', '.join(map(str, [output, *files.values()]))}: {minutes}{late}.")
    print(*(f"Warning: {sentence}" for sentence in warnings), f"Run it: snakemake --configfile {output}", sep="\n")
    print(f"The answers will be in {results}/report.html")
