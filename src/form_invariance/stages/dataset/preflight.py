"""Does every cell have enough right answers? All censuses are checked before the expensive jobs."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.pairs import without
from form_invariance.tables.keys import CellKey

FEWEST_PROMPTS = 6
"""The smallest number of train prompts, and of eval prompts, of an experiment."""


def preflight_table(
    censuses: Mapping[CellKey, tuple[pd.DataFrame, str]], choice: Choice, across: bool = False
) -> pd.DataFrame:
    """The preflight table of one model.

    Args:
        censuses: census table and template of every cell.
        choice: the numbers of prompts that the run asks for.
        across: corrupt partners come from all operators of the format.
    """
    rows, problems = [], []
    for (name, operator), (census, _) in censuses.items():
        problem = cache(partial(_problem, _partners(censuses, name, operator, across), operator, choice))
        reason = problem(choice.train)
        problems.append(problem)
        fits = _largest([problem], choice.train)
        uniform = census[census["uniform"]]
        rows.append(
            {
                "format": name,
                "operator": operator,
                "asked": len(uniform),
                "right": int(uniform["correct"].sum()),
                "enough": not reason,
                "train_fits": fits,
                "eval_fits": _evaluation(fits, choice),
                "correctable": _correctable(censuses, name, operator),
                "reason": reason,
            }
        )
    table = pd.DataFrame(rows)
    return table.assign(all_fit=_largest(problems, int(table["train_fits"].min())))


def _partners(
    censuses: Mapping[CellKey, tuple[pd.DataFrame, str]], name: str, operator: str, across: bool
) -> dict[str, tuple[pd.DataFrame, str]]:
    """The censuses that a cell's corrupt partners come from."""
    return {of: census for (form, of), census in censuses.items() if form == name and (across or of == operator)}


def _problem(censuses: Mapping[str, tuple[pd.DataFrame, str]], operator: str, choice: Choice, train: int) -> str:
    """The reason why a dataset with this number of train prompts is impossible; empty if it is possible."""
    try:
        make_dataset(censuses, operator, Choice(train, _evaluation(train, choice), choice.draws, choice.seed))
    except UserError as error:
        return str(error)
    return ""


def _evaluation(train: int, choice: Choice) -> int:
    """Eval prompts in the proportion of the choice."""
    return round(train * choice.evaluation / choice.train)


def _largest(problems: Sequence[Callable[[int], str]], train: int) -> int:
    """The largest number of train prompts up to `train` for which all cells have a dataset; 0 if there is none.

    A smaller number may fail where a larger one does not, because the splits depend on it. So all are tried.
    """
    return next((size for size in range(train, 0, -1) if not any(problem(size) for problem in problems)), 0)


def _correctable(censuses: Mapping[CellKey, tuple[pd.DataFrame, str]], name: str, operator: str) -> int:
    """The number of problems that the cell answers wrong and another format right: transfer is tried on these."""
    census, _ = censuses[name, operator]
    wrong = census.loc[census["uniform"] & ~census["correct"], ["a", "b"]]
    right = [
        other.loc[other["uniform"] & other["correct"], ["a", "b"]]
        for (form, of), (other, _) in censuses.items()
        if of == operator and form != name
    ]
    return len(wrong.merge(pd.concat(right).drop_duplicates(), on=["a", "b"])) if right else 0


def check(table: pd.DataFrame, choice: Choice, censuses: Mapping[CellKey, tuple[pd.DataFrame, str]]) -> None:
    """Check that every cell has enough right answers.

    Args:
        table: `preflight_table` of these censuses.

    Raises:
        UserError: some cells have too few; the message names them, and the numbers of prompts that fit all cells,
            or the cells whose problems the model does not know.
    """
    short = table[~table["enough"]]
    if short.empty:
        return
    cells = {
        (str(row.format), str(row.operator)): f"{row.format}/{row.operator} ({row.right} of {row.asked} right)"
        for row in short.itertuples()
    }
    unknown = [cells[cell] for cell in cells if _is_guessing(censuses[cell][0])]
    cure = "give their templates worked examples (scout tries some), or leave these cells out"
    if unknown:
        raise UserError(
            f"the model does not know {', '.join(unknown)}: one answer to all problems would be right as often; "
            f"{cure}"
        )
    train = int(table["all_fit"].iloc[0])
    evaluation = _evaluation(train, choice)
    if min(train, evaluation) >= FEWEST_PROMPTS:
        cure = f"train_prompts: {train} and eval_prompts: {evaluation} fit every cell"
    raise UserError(
        f"{len(short)} of {len(table)} cells have too few right answers for {choice.train} train and "
        f"{choice.evaluation} eval prompts: {', '.join(cells.values())}; {cure}, or raise census_pairs (a "
        f"table has no more than its rows). The first of them: {short['reason'].iloc[0]}"
    )


def _is_guessing(census: pd.DataFrame) -> bool:
    """Whether one answer to all problems would be right as often as the model is."""
    uniform = census[census["uniform"]]
    return bool(uniform["correct"].sum() <= uniform["target"].value_counts().max())


def check_left(censuses: Mapping[CellKey, tuple[pd.DataFrame, str]], choice: Choice, across: bool = False) -> None:
    """Check that every operator has problems in no format's dataset: mean activations are taken over these.

    Args:
        censuses: as for `preflight_table`; every cell has enough right answers.

    Raises:
        UserError: an operator has none left.
    """
    datasets = [
        make_dataset(_partners(censuses, name, operator, across), operator, choice)[0]
        for name, operator in censuses
    ]
    formats = len({form for form, _ in censuses})
    for (_, operator), (census, _) in censuses.items():
        uniform = census[census["uniform"]]
        if without(uniform, datasets).empty:
            raise UserError(
                f"all {len(uniform)} problems of {operator} are train or eval prompts of some format, so that "
                "none is left for the means that replace ablated activations; lower train_prompts + "
                f"eval_prompts to {(len(uniform) - 1) // formats}, or raise census_pairs (a table needs more rows)"
            )
