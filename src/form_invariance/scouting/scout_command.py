"""A first look at a model."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pandas as pd
from cyclopts import Parameter, validators

from form_invariance.errors import UserError
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import Files, Flag, ModelOptions, Seed
from form_invariance.scouting import choice, proposal, questions, sizes, writing
from form_invariance.scouting.other_tasks import other_tasks
from form_invariance.scouting.questions import AskedQuestion
from form_invariance.scouting.wordings import as_typed
from form_invariance.scouting.writing import model_name
from form_invariance.tables.files import write_text
from form_invariance.workflow.config_check import check, load
from form_invariance.workflow.config_schema import check_name
from form_invariance.workflow.paths import default_folder
from form_invariance.workflow.undefined import undefined_verdicts

TRYING = 10
"""The trials take at most the experiment's time divided by this."""
_POSITIVE = Parameter(validator=validators.Number(gt=0))


def _templates(items: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """The wordings of --template, by format and operator."""
    by_cell: dict[tuple[str, str], list[str]] = {}
    for item in dict.fromkeys(items):
        cell, _, text = item.partition("=")
        form, _, operator = cell.partition("/")
        if not (form and operator and text) or "/" in operator:
            raise UserError(f"--template: {item!r} must have the form FORMAT/OPERATOR=TEMPLATE")
        by_cell.setdefault((form, operator), []).append(as_typed(text))
    return by_cell


def _check_names(model: str, tables: dict[Path, AskedQuestion], template: Sequence[str]) -> None:
    """Refuse, before the model is loaded, names that no configuration can have."""
    check_name(model_name(model), "models", "--model")
    for path, table in tables.items():
        check_name(table.operator, "operators", f"--table: {path} gives the operator its name")
    for form, _ in _templates(template):
        check_name(form, "formats", "--template")


def _check_files(files: list[Path], inputs: Sequence[Path], force: bool) -> None:
    """Refuse outputs that are folders or inputs, and, without --force, files that exist."""
    for path in files:
        if path.is_dir() or path.resolve() in [table.resolve() for table in inputs]:
            raise UserError(f"--output: {path} is a folder or an input; name another file")
        if path.exists() and not force:
            raise UserError(f"--output: {path} exists; name another file, or replace it with --force")


def scout(
    *,
    model: ModelOptions,
    table: Files = (),
    template: tuple[str, ...] = (),
    examples: str = "same",
    minutes: Annotated[float, _POSITIVE] = 60,
    tflops: Annotated[float | None, _POSITIVE] = None,
    seed: Annotated[Seed, Parameter(validator=validators.Number(gte=0))] = 0,
    force: Flag = False,
    output: Path,
) -> None:
    """Try wordings and worked examples on a model, and write a configuration that runs.

    Args:
        table: CSV files; the column `answer`, or else the last one, has the answers; default: arithmetic
        template: FORMAT/OPERATOR=TEMPLATE, wordings to try instead of a format's own; a table's operator has the
            name of its file; the prompt ends before {answer}, if that is given, and in worked examples the text
            after it follows the answer: code/capitals='CAPITALS["{country}"] = "{answer}"'; \\n is a line break,
            \\\\ a backslash
        examples: worked examples of each prompt: a number, or same (the default): the best of 0, 1, 2 and 4 for
            all formats together
        minutes: time of the experiment; the trials take at most a tenth of it; default: 60
        tflops: rate of the machine of the experiment, in 1e12 operations per second; default: this one's
        force: replace the output, and its copies of tables
        output: configuration file
    """
    schema = load(default_folder() / "schemas/config.schema.yaml")
    tables = questions.of_files(table, choice.counts_of(examples)[-1])
    copies = {question.operator: output.with_name(f"{output.stem}_{question.operator}.csv") for question in tables}
    _check_names(model.model, dict(zip(table, tables, strict=True)), template)
    _check_files([output, *copies.values()], table, force)
    decoder, tokenizer = load_model(model)
    levels = questions.levels(tokenizer, tables, _templates(template))

    def show(tried: pd.DataFrame) -> None:
        print(writing.table(tried), flush=True)

    chosen_questions, trials = choice.search(
        decoder, tokenizer, levels, seed, examples, show, 60 * minutes / TRYING
    )
    chosen_trials = trials[trials["chosen"]]
    level = chosen_trials["level"].iloc[0]
    of_level = trials[trials["level"] == level]
    left_out = choice.untried(levels[level], of_level, examples) + choice.left_out(of_level, chosen_trials)
    left_out += questions.unasked(levels[level])
    texts = proposal.tables_without_examples(chosen_questions, chosen_trials, seed)
    files = {operator: copies[operator] for operator in texts}
    tasks = other_tasks(tokenizer, chosen_questions, dict.fromkeys(chosen_trials["format"]))
    # The model's keys of the configuration; `model_files` belongs to a run.
    model_settings = {"source": model.model} | {
        field.name: getattr(model, field.name)
        for field in fields(model)
        if field.name not in ("model", "model_files") and getattr(model, field.name) != field.default
    }
    speed = tflops * 1e12 if tflops else sizes.machine_rate(model_settings, decoder.device.type != "cpu")
    with TemporaryDirectory() as folder:
        drafts = {operator: Path(folder) / path.name for operator, path in files.items()}
        for operator, path in drafts.items():
            path.write_text(texts[operator], encoding="utf-8")
        censuses = proposal.censuses(decoder, tokenizer, chosen_questions, chosen_trials, drafts, seed)
        text, config, seconds, lowered = proposal.fit(
            writing.Experiment(
                model_settings, decoder.config.d_mlp, chosen_questions, chosen_trials, files, tasks, seed
            ),
            censuses,
            speed,
            60 * minutes,
        )
        left_out += lowered
        files = {operator: path for operator, path in files.items() if operator in config["operators"]}
        for operator in files:
            config["operators"][operator]["table"] = str(drafts[operator])
        check(config, schema)
        warnings = list(undefined_verdicts(config))
    for operator, path in files.items():
        write_text(path, texts[operator])
    time = f"about {seconds / 60:.0f} minutes at {speed / 1e12:.2g} TFLOP/s"
    results = f"results/{writing.model_name(output.stem)}"
    opening = [f"Written by scout. Estimated time of the experiment: {time}."]
    opening += [f"Left out: {sentence}." for sentence in left_out]
    opening += ["Folder of all that it writes."]
    write_text(output, "\n".join([*(f"# {line}" for line in opening), f"results: {results}", "", text]))
    print(*(f"Left out: {sentence}." for sentence in left_out), sep="\n")
    print(f"Wrote {', '.join(map(str, [output, *files.values()]))}: {time}.")
    print(*(f"Warning: {sentence}" for sentence in warnings), f"Run it: snakemake --configfile {output}", sep="\n")
    print(f"The answers will be in {results}/report.html")
