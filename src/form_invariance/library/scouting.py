"""Which problems a model can solve, and with which prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.experiment.run import Run
from form_invariance.library.models import as_loaded
from form_invariance.library.tables import shown, whole
from form_invariance.scouting import questions
from form_invariance.scouting.choice import SAME, counts_of, search

GivenTemplates = Mapping[str | tuple[str, str], str | Sequence[str]]
"""One or several wordings: by format for all operators, or by (format, operator)."""


@as_loaded
def scout(
    model: Run,
    tables: str | Path | Sequence[str | Path] = (),
    templates: GivenTemplates | None = None,
    seed: int = 0,
    examples: str | int = SAME,
) -> pd.DataFrame:
    """Try wordings, with worked examples and without, on arithmetic or on the problems of CSV files.

    >>> import tempfile
    >>> rows = pd.DataFrame({"a": range(10, 50), "b": range(307, 347)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows.assign(answer=rows["a"] + rows["b"]).to_csv(f"{folder}/sums.csv", index=False)
    ...     wordings = {"symbolic": "{a}+{b}=", ("code", "sums"): "a = {a}\\nb = {b}\\nprint(a + b)  # "}
    ...     trials = scout(load_model("embedded:embedded-shared"), [f"{folder}/sums.csv"], wordings)
    >>> trials.loc[trials["chosen"], "format"].tolist()
    ['code', 'symbolic']

    Args:
        tables: CSV files with the answers in their column `answer`, or else in the last column. Without files:
            arithmetic, as the tokenizer allows.
        templates: by format, or by (format, operator), one or several wordings in place of those of the format;
            wordings without an operator are for all operators without wordings of their own. A table's operator is
            the name of its file. Text that must follow the answer in worked examples comes after ``{answer}``.
        examples: worked examples of each prompt: a number, or `same`: the best of 0, 1, 2 and 4 for all formats
            together.

    Returns:
        One row for each trial (`scouting.trial.trials`), with the columns level and chosen. `make_prompts` takes
        the template of a row.

    Raises:
        UserError: the model answers too few problems, or a file is not a table of problems.
    """
    number = whole(seed)
    if number is None or number < 0:
        raise UserError(f"seed: {shown(seed)} must be a whole number, 0 or larger")
    files = _files(tables)
    of_tables = questions.of_files(files, counts_of(examples)[-1])
    levels = questions.levels(model.tokenizer, of_tables, _by_cell({} if templates is None else templates))
    return search(model.model, model.tokenizer, levels, number, examples)[1]


def _files(tables: object) -> list[Path]:
    files = [tables] if isinstance(tables, str | Path) else tables
    if not isinstance(files, Sequence) or not all(isinstance(file, str | Path) for file in files):
        raise UserError(f"tables: {shown(tables)} must be a CSV file, or a list of them")
    return list(map(Path, files))


def _by_cell(templates: object) -> questions.Templates:
    if not isinstance(templates, Mapping):
        raise UserError(f"templates: {shown(templates)} must be a dict, such as {{'code': ['{{a}} + {{b}} == ']}}")
    cells = {}
    for key, value in templates.items():
        cell = (key, "") if isinstance(key, str) else key
        if not _are_texts(cell) or len(cell) != 2 or not cell[0]:
            raise UserError(f"templates: {shown(key)} must be a format, or (format, operator)")
        wordings = [value] if isinstance(value, str) else value
        if not _are_texts(wordings):
            raise UserError(f"templates: {shown(value)} must be a template, or a list of templates")
        cells[cell] = wordings
    return cells


def _are_texts(values: object) -> bool:
    return isinstance(values, list | tuple) and bool(values) and all(isinstance(text, str) for text in values)
