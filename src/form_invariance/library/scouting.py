"""Which problems a model can do, and with which prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from form_invariance.library.models import as_loaded
from form_invariance.scouting import questions
from form_invariance.scouting.choice import search
from form_invariance.stages.run import Run


@as_loaded
def scout(
    model: Run,
    tables: Sequence[str | Path] = (),
    templates: Mapping[tuple[str, str], str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Try wordings, with 0, 1, 2 and 4 worked examples, on arithmetic or on the problems of CSV files.

    >>> import tempfile
    >>> rows = pd.DataFrame({"a": range(10, 50), "b": range(307, 347)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows.assign(answer=rows["a"] + rows["b"]).to_csv(f"{folder}/sums.csv", index=False)
    ...     known = {("symbolic", "sums"): "{a}+{b}=", ("code", "sums"): "a = {a}\\nb = {b}\\nprint(a + b)  # "}
    ...     trials = scout(load_model("embedded:embedded-shared"), [f"{folder}/sums.csv"], known)
    >>> trials.loc[trials["chosen"], "format"].tolist()
    ['code', 'symbolic']

    Args:
        templates: by format and operator, wordings in place of those of the format. A table's operator is the
            name of its file.
        tables: CSV files whose column `answer`, or else the last one, has the answers; none: arithmetic, as the
            tokenizer allows.

    Returns:
        One row a trial (`scouting.trial.trials`), with the columns level and chosen. `make_prompts` takes a row's
        template.

    Raises:
        UserError: the model knows too little, or a file is no table of problems.
    """
    levels = questions.levels(model.tokenizer, questions.of_files(list(map(Path, tables))), templates or {})
    return search(model.model, model.tokenizer, levels, seed)[1]
