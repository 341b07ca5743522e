from contextlib import nullcontext

import numpy as np
import pytest
from test_dataset import census_of

from form_invariance.errors import UserError
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.preflight import check, check_left, preflight_table
from form_invariance.stages.mean_cache.compute import choose_prompts


def cell(wrong, high=20):
    return census_of("a + b", high, wrong).assign(uniform=True), "{a}+{b}="


def test_a_cell_is_enough_where_its_dataset_can_be_made():
    cells = {("symbolic", "sum"): 0.1, ("word", "sum"): 0.9, ("word", "few"): 1.0, ("code", "sum"): 0.1}
    censuses = {name: cell(wrong) for name, wrong in cells.items()}
    table = preflight_table(censuses, Choice(20, 30, draws=1, seed=0)).set_index(["format", "operator"])
    assert table["enough"].tolist() == [True, False, False, True]
    for key, (census, _) in censuses.items():
        assert table.loc[key, ["right", "asked"]].tolist() == [census["correct"].sum(), len(census)]
    # The sizes that fit are the largest for which a dataset can be made.
    census, template = censuses["word", "sum"]
    fits = int(table.loc[("word", "sum"), "train_fits"])
    for train in (fits, fits + 1):
        sizes = Choice(train, round(train * 1.5), 1, 0)
        with nullcontext() if train == fits else pytest.raises(UserError):
            make_dataset({"sum": (census, template)}, "sum", sizes)
    assert table.loc[("word", "few"), ["train_fits", "eval_fits"]].tolist() == [0, 0]
    assert table.loc[("symbolic", "sum"), ["train_fits", "eval_fits"]].tolist() == [20, 30]
    correctable = censuses["symbolic", "sum"][0]["correct"] & ~census["correct"]
    # A problem that is right in two other formats counts once; no other format has the operator `few`.
    assert table["correctable"][1:3].tolist() == [correctable.sum(), 0]


@pytest.mark.parametrize(
    ("right", "evaluation", "said"),
    [
        (
            1,
            20,
            r"^the model does not know word/sum \(1 of 400 right\): .* worked examples .* leave these cells out$",
        ),
        (25, 5, r"^1 of 2 cells .* word/sum \(25 of 400 right\); give their templates .* or raise census_pairs"),
        (60, 20, r"^1 of 2 cells .* word/sum \(60 of 400 right\); train_prompts: \d+ and eval_prompts: \d+ fit"),
    ],
)
def test_sizes_are_no_cure_for_what_the_model_does_not_know(right, evaluation, said):
    known, template = cell(0.1)
    few = known.assign(correct=np.random.default_rng(0).permutation(len(known)) < right)
    censuses = {("symbolic", "sum"): (known, template), ("word", "sum"): (few, template)}
    choice = Choice(30, evaluation, draws=1, seed=0)
    with pytest.raises(UserError, match=said):
        check(preflight_table(censuses, choice), choice, censuses)


@pytest.mark.parametrize(("rows", "left"), [(12, False), (40, True)])
def test_problems_are_left_for_the_means_as_the_mean_cache_needs_them(rows, left):
    """Every row of the table is right. Each format draws its own rows; the rest gives the means."""
    one = cell(0.0, 40)[0].drop_duplicates("answer").head(rows).assign(a=range(rows), b=-1)
    choice = Choice(6, 6, 1, 0)
    tables = {(name, "t"): (one, f"{name} {{word}}") for name in ("question", "code")}
    datasets = [make_dataset({"t": given}, "t", choice)[0] for given in tables.values()]
    if left:
        check_left(tables, choice)
        choose_prompts({"t": one}, datasets, 5, 0)
    else:
        with pytest.raises(UserError, match="all 12 problems of t are train or eval prompts"):
            check_left(tables, choice)
        with pytest.raises(UserError, match="is in a dataset"):
            choose_prompts({"t": one}, datasets, 5, 0)
