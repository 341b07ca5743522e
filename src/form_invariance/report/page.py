"""The report's page: one HTML file that contains its figures and tables."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

import pandas as pd
from markupsafe import Markup, escape

from form_invariance.errors import UserError
from form_invariance.experiment.answers import UNDEFINED, Answer
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.page.make import data_uri, make_page
from form_invariance.report.verdicts import extents, verdict_of, verdict_rows, with_minus
from form_invariance.tables.files import reading
from form_invariance.verdicts.summary.answer import QUESTION


def _image(path: Path) -> dict[str, str]:
    with reading(path, "SVG", ExpatError):
        content = path.read_bytes()
        ParserCreate().Parse(content, True)
    return {"file": path.stem, "name": path.stem.replace("_", " "), "data": data_uri(content)}


def _table(frame: pd.DataFrame) -> Markup:
    def shown(value: object) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    return Markup(frame.map(shown).mask(frame.isna(), UNDEFINED).to_html(index=False, border=0))


def run_times(benchmarks: Path) -> pd.DataFrame:
    """Number of jobs, their seconds and their largest memory (MB) by stage, from the rules' benchmark files."""
    rows = []
    for path in sorted(benchmarks.glob("**/*.tsv")):
        with reading(path, "a benchmark", LookupError):
            line = pd.read_csv(path, sep="\t", na_values="-").iloc[0]
            stage = path.relative_to(benchmarks).with_suffix("").parts[0]
            rows.append((stage, float(line["s"]), float(line["max_rss"])))
    table = pd.DataFrame(rows, columns=["stage", "seconds", "MB"])
    return table.groupby("stage", as_index=False).agg(
        jobs=("seconds", "size"), seconds=("seconds", "sum"), largest_mb=("MB", "max")
    )


def _paper_table(path: Path) -> dict[str, Any]:
    with reading(path, "CSV"):
        return {"name": path.stem.replace("_", " "), "html": _table(pd.read_csv(path))}


def _shown(answer: Answer, figures: Mapping[str, Path], of: str) -> dict[str, Any]:
    """An answer with its heading `of`, its table as HTML and CSV, and its figures (files by name) as data URIs."""
    return {
        "of": of,
        "sentence": with_minus(answer.sentence),
        "table": _table(answer.table),
        "csv": data_uri(answer.table.to_csv(index=False).encode(), "text/csv"),
        "figures": [_image(figures[name]) for name in answer.figures],
    }


def _method(text: str) -> Markup:
    """Paragraphs of text with code in backticks, as HTML."""
    paragraphs = [re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(part))) for part in text.split("\n\n")]
    return Markup("".join(f"<p>{part}</p>" for part in paragraphs if part))


def _sections(
    answers: Mapping[str, list[Answer]], figures: Mapping[tuple[str, str], Path]
) -> list[dict[str, Any]]:
    """A section for each question, with the models' answers side by side."""
    sections: dict[str, dict[str, Any]] = {}
    for model, model_answers in answers.items():
        for answer in model_answers:
            if answer.question == QUESTION:
                continue
            words = {"question": answer.question, "anchor": answer.anchor, "method": _method(answer.method)}
            section = sections.setdefault(answer.question, {**words, "figures": {}, "answers": []})
            section["figures"] |= dict.fromkeys(answer.figures)
            if missing := [name for name in answer.figures if (model, name) not in figures]:
                raise UserError(f"--figures: {model}/{missing[0]}.svg is missing, which its answers name; give it")
            paths = {name: figures[model, name] for name in answer.figures}
            section["answers"].append(_shown(answer, paths, model))
    return list(sections.values())


def render(
    answers: Mapping[str, list[Answer]],
    figures: Mapping[tuple[str, str], Path],
    compared: Sequence[Path],
    paper: Sequence[Path],
    benchmarks: Path,
    captions: Mapping[str, str],
    configuration: str,
) -> str:
    """The page.

    Args:
        answers: by model.
        figures: SVG by (model, name).
        compared: SVG of the figures that concern all models.
        paper: CSV of the paper's tables.
        benchmarks: folder of the rules' benchmark files.
        captions: by figure; a section shows each once for all models.
        configuration: the configuration of the run, as YAML.

    Raises:
        UserError: a figure, a table or a benchmark file is missing or broken.
    """
    sections = _sections(answers, figures)
    for section in sections:
        section["captions"] = {name: captions[name] for name in section["figures"] if name in captions}
    by_question = {section["question"]: section for section in sections}
    main_sections = [
        by_question.pop(question.label) for question in QUESTIONS.values() if question.label in by_question
    ]
    places = {section["question"]: section["anchor"] for section in main_sections}
    verdicts = {model: verdict_of(model_answers) for model, model_answers in answers.items()}
    return make_page(
        Path(__file__).parent,
        title=f"Form invariance of {', '.join(answers)}",
        models=list(answers),
        verdicts=[{**row, "anchor": places.get(row["name"])} for row in verdict_rows(answers)],
        extents=list(extents(answers)),
        sizes=sorted({int(k) for verdict in verdicts.values() if verdict for k in verdict.table["k"]}),
        decided=[_shown(verdict, {}, model) for model, verdict in verdicts.items() if verdict],
        asked=main_sections,
        further=list(by_question.values()),
        captions=captions,
        compared=[_image(path) for path in compared],
        paper=[_paper_table(path) for path in paper],
        times=_table(run_times(benchmarks)),
        configuration=configuration,
    )
