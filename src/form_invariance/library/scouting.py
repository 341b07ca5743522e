"""Which problems a model can do, and with which prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.experiment.run import Run
from form_invariance.library.models import as_loaded
from form_invariance.library.tables import shown, whole
from form_invariance.scouting import questions
from form_invariance.scouting.choice import SAME, counts_of, search


@as_loaded
def scout(
    model: Run,
    tables: str | Path | Sequence[str | Path] = (),
    templates: Mapping[tuple[str, str], str | Sequence[str]] | None = None,
    seed: int = 0,
    examples: str | int = SAME,
) -> pd.DataFrame:
    """Try wordings, with worked examples and without, on arithmetic or on the problems of CSV files.

    >>> import tempfile
    >>> rows = pd.DataFrame({"a": range(10, 50), "b": range(307, 347)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows.assign(answer=rows["a"] + rows["b"]).to_csv(f"{folder}/sums.csv", index=False)
    ...     known = {("symbolic", "sums"): "{a}+{b}=", ("code", "sums"): "a = {a}\\nb = {b}\\nprint(a + b)  # "}
    ...     trials = scout(load_model("embedded:embedded-shared"), [f"{folder}/sums.csv"], known)
    >>> trials.loc[trials["chosen"], "format"].tolist()
    ['code', 'symbolic']

    Args:
        tables: CSV files whose column `answer`, or else the last one, has the answers; none: arithmetic, as the
            tokenizer allows.
        templates: by format and operator, one or several wordings in place of those of the format. A table's
            operator is the name of its file. Text that must follow the answer in worked examples comes after
            ``{answer}``.
        examples: worked examples of each prompt: a number, or `same`: the best of 0, 1, 2 and 4 for all formats
            together.

    Returns:
        One row a trial (`scouting.trial.trials`), with the columns level and chosen. `make_prompts` takes a row's
        template.

    Raises:
        UserError: the model knows too little, or a file is no table of problems.
    """
    number = whole(seed)
    if number is None or number < 0:
        raise UserError(f"seed: {shown(seed)} must be a whole number, 0 or larger")
    files = [Path(one) for one in ([tables] if isinstance(tables, str | Path) else tables)]
    wordings = {cell: [one] if isinstance(one, str) else list(one) for cell, one in (templates or {}).items()}
    levels = questions.levels(model.tokenizer, questions.of_files(files, counts_of(examples)[-1]), wordings)
    return search(model.model, model.tokenizer, levels, number, examples)[1]
