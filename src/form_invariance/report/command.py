"""The report."""

from pathlib import Path

from form_invariance.experiment.answers import read_answers
from form_invariance.experiment.options import Files, FilesOfModels, json_object
from form_invariance.report.page import render
from form_invariance.tables.files import write_text


def report(
    *,
    answers: FilesOfModels,
    figures: Files,
    compared: Files,
    captions: str = "{}",
    paper_tables: Files = (),
    benchmarks: Path,
    configuration: str,
    output: Path,
) -> None:
    """Write the report, one HTML file: each question answered by a sentence, a figure and a table.

    Args:
        answers: answers of each model
        figures: MODEL/NAME.svg of each model's figures
        compared: SVG of the figures of all models
        captions: captions by figure, as JSON
        paper_tables: CSV of each table
        benchmarks: folder of the rules' benchmark files
        configuration: the run's configuration, for the record
        output: HTML file
    """
    drawn = {(path.parent.name, path.stem): path for path in figures}
    answered, texts = dict(map(read_answers, answers)), json_object(captions, "--captions")
    write_text(output, render(answered, drawn, compared, paper_tables, benchmarks, texts, configuration))
