"""The donors of each target: the prompts whose states it takes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.beyond.residual_exchange.table import COPIED, FORMAT, OPERATOR, REPAIR
from form_invariance.errors import UserError
from form_invariance.randomness import generator
from form_invariance.stages.dataset.prompts import eval_rows
from form_invariance.stages.transfer.conditions import pair_censuses
from form_invariance.stages.transfer.copies import copies_of
from form_invariance.tables.keys import CellKey

COLUMNS = ["donor", "donor_format", "a", "b", "prompt", "own_token", "donor_prompt", "donor_token"]


def donations(
    cell: CellKey, datasets: Mapping[CellKey, pd.DataFrame], censuses: Mapping[str, pd.DataFrame], seed: int
) -> pd.DataFrame:
    """The donations to one cell, except from prompts that copy: a donor of each kind for each target.

    Args:
        cell: the targets' cell.
        datasets: dataset tables of every cell of its operator and of its format.
        censuses: census tables of its operator, by format.

    Returns:
        Columns donor, donor_format, a, b, prompt, own_token, donor_prompt, donor_token.

    Raises:
        UserError: a dataset has neither the format nor the operator of the cell, or the cell's own is missing.
    """
    name, operator = cell
    odd = [key for key in datasets if name != key[0] and operator != key[1]]
    if odd or cell not in datasets:
        said = f"{'/'.join(odd[0])} is given" if odd else "that of this cell is not"
        raise UserError(
            f"--datasets of {name}/{operator} must have a file for each format of the operator, and for each "
            f"operator of the format, but {said}"
        )
    problems = {key: eval_rows(table) for key, table in datasets.items()}
    targets, parts = problems[cell], []
    for (form, other), donors in problems.items():
        if other == operator:
            rng = generator(seed, "residual exchange", *cell, form)
            parts.append(_with_another_answer(targets, donors, rng).assign(donor=FORMAT, donor_format=form))
    if others := [rows for (form, other), rows in problems.items() if form == name and other != operator]:
        rng = generator(seed, "residual exchange", *cell, OPERATOR)
        donors = pd.concat(others)
        parts.append(_with_another_answer(targets, donors, rng).assign(donor=OPERATOR, donor_format=name))
    for form, census in censuses.items():
        if form != name:
            pairs = pair_censuses(census, censuses[name])
            pairs = pairs[pairs["uniform_target"] & pairs["correct_donor"] & ~pairs["correct_target"]]
            order = generator(seed, "residual exchange", *cell, REPAIR, form).permutation(len(pairs))
            pairs = pairs.iloc[order[: len(targets)]].rename(
                columns={
                    "prompt_target": "prompt",
                    "predicted_token_target": "own_token",
                    "prompt_donor": "donor_prompt",
                    "answer_token_donor": "donor_token",
                }
            )
            parts.append(pairs.assign(donor=REPAIR, donor_format=form))
    return pd.concat([part[COLUMNS] for part in parts], ignore_index=True)


def _with_another_answer(targets: pd.DataFrame, donors: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Each target with a random donor whose answer has another text and another token."""
    rows = []
    for target in targets.to_dict("records"):
        able = (donors["answer_token"] != target["answer_token"]) & (donors["target"] != target["target"])
        if places := np.flatnonzero(able).tolist():
            donor = donors.iloc[rng.choice(places)]
            problem = {"a": target["a"], "b": target["b"], "prompt": target["prompt"]}
            tokens = {"own_token": target["answer_token"], "donor_token": donor["answer_token"]}
            rows.append(problem | tokens | {"donor_prompt": donor["prompt"]})
    return pd.DataFrame(rows, columns=COLUMNS)


def with_copies(donors: pd.DataFrame, copies: pd.DataFrame, cell: CellKey, seed: int) -> pd.DataFrame:
    """The donations, and for each of the own format's donors a prompt that copies the same answer.

    Args:
        copies: columns prompt and answer_token (`right_copies`).
    """
    of_format = donors[(donors["donor"] == FORMAT) & (donors["donor_format"] == cell[0])]
    rng = generator(seed, "residual exchange", *cell, COPIED)
    copied, copy_rows = copies_of(of_format["donor_token"].to_numpy(), copies, rng)
    copying = of_format.iloc[copied].assign(donor=COPIED, donor_prompt=copy_rows["prompt"].to_numpy())
    return pd.concat([donors, copying], ignore_index=True)
