"""The report's page: figures and tables inside the one HTML file, nothing outside it."""

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from form_invariance import __version__
from form_invariance.report.template import PAGE
from form_invariance.stages.answers import Answer
from form_invariance.tables.files import reading

_METHODS = (
    "Two-stage ranking of MLP neurons at the last token (attribution, then exact patching by replay), the shared "
    "circuit as the intersection of the formats' best, keep-only and knockout by mean ablation at every position "
    "except BOS, transfer of the shared neurons' activations between formats, and heuristic families of the "
    "shared neurons. Means over cells give every cell the same weight; intervals are 95 % and are in the tables."
)


@dataclass(frozen=True)
class Files:
    """The files that a page shows.

    Attributes:
        figures: SVG by (model, name).
        compared: SVG of the figures that concern all models, by name.
        paper: CSV of the paper's tables, by name.
        benchmarks: folder of the rules' benchmark files.
    """

    figures: Mapping[tuple[str, str], Path]
    compared: Mapping[str, Path]
    paper: Mapping[str, Path]
    benchmarks: Path


def _image(path: Path) -> dict[str, str]:
    with reading(path, "SVG", ExpatError):
        content = path.read_bytes()
        ParserCreate().Parse(content, True)
    data = base64.b64encode(content).decode()
    return {"name": path.stem.replace("_", " "), "data": f"data:image/svg+xml;base64,{data}"}


def _table(frame: pd.DataFrame) -> Markup:
    def shown(value: object) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    return Markup(frame.map(shown).to_html(index=False, border=0, na_rep=""))


def run_times(benchmarks: Path) -> pd.DataFrame:
    """Jobs, seconds and largest memory of each stage, from the rules' benchmark files."""
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


def _shown(answer: Answer, figures: Mapping[str, Path]) -> dict[str, Any]:
    """An answer with its table as HTML and its figures, given by name, as data."""
    return {
        "question": answer.question,
        "sentence": answer.sentence,
        "table": _table(answer.table),
        "figures": [_image(figures[name]) for name in answer.figures],
    }


def render(
    answers: Mapping[str, list[Answer]],
    truth: Answer,
    files: Files,
    configuration: str,
    browsers: Collection[str],
) -> str:
    """The page.

    Args:
        answers: of each model.
        truth: the answer about the planted circuits, which concerns no model of the run.
        configuration: the configuration of the run, as YAML.
        browsers: the models that have a neuron browser.

    Raises:
        UserError: a figure, a table or a benchmark file is missing or broken.
    """
    models: list[dict[str, Any]] = [
        {
            "name": model,
            "browser": model in browsers,
            "answers": [
                _shown(answer, {name: files.figures[model, name] for name in answer.figures}) for answer in own
            ],
        }
        for model, own in answers.items()
    ]
    paper = [_paper_table(path) for path in files.paper.values()]
    template = Environment(autoescape=True, trim_blocks=True).from_string(PAGE)
    return template.render(
        title=f"Form invariance of {', '.join(answers)}",
        models=models,
        truth=_shown(truth, files.compared),
        compared=[_image(path) for name, path in files.compared.items() if name not in truth.figures],
        paper=paper,
        methods=f"form-invariance {__version__}. {_METHODS}",
        times=_table(run_times(files.benchmarks)),
        configuration=configuration,
    )
