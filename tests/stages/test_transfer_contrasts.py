import itertools
from functools import partial

import numpy as np
import pandas as pd
import planted_models
import pytest
from example_tables import crossed
from measured import contrasts_of, moved
from plain_contrasts import check_rows
from planted_models import COPYING, LATE, PLANTED, TEMPLATES, WIDTH, census_of, run_of

from form_invariance.experiment.contrasts.engine import verdict
from form_invariance.experiment.contrasts.entries import CONTRASTS as ENTRIES
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.values import RATE
from form_invariance.experiment.controls import Draws
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.mean_cache.compute import last_token_means
from form_invariance.stages.transfer.answer import answer
from form_invariance.stages.transfer.conditions import plan
from form_invariance.stages.transfer.copies import answers_of_donors, right_copies, with_copies
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.neuron_sets import FormatValues, neuron_sets
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.columns import ALL

MOVED = [name for name, entry in ENTRIES.items() if RATE in entry.metrics.get("", ())]
"""The contrasts of transfer."""
HALVES = ("half_1_", "half_2_")
REPEATED = ("matched", "mismatched", "same_answer", "interchange", "copied_answer", "copied_other")
DRAWS = {"random": 3, "random_variance": 2, "not_shared": None}


@pytest.fixture(scope="module")
def tables():
    """The table by pair of made-up cells: two operators, two directions, two k."""
    rng = np.random.default_rng(0)
    rows, halves = [], [half + name for half in HALVES for name in REPEATED]
    conditions = *REPEATED, "no_donor", "harm_matched", *halves, *DRAWS
    sets = [(name, seed) for name in conditions for seed in (range(DRAWS[name]) if DRAWS.get(name) else [-1])]
    for operator, (donor, target), k in itertools.product("+-", ("DT", "TD"), (10, 50)):
        if (operator, donor, k) == ("-", "T", 10):
            continue  # nothing is shared there
        problems = rng.permutation(40)[: rng.integers(8, 20)]
        for (condition, seed), a in itertools.product(sets, problems):
            if a % 3 or not condition.endswith(("same_answer", "copied_answer", "copied_other")):
                values = *(rng.random(2) < rng.random()), rng.random()
                rows.append((operator, donor, target, k, condition, seed, a, a + 1, *values))
    names = ["operator", "donor", "target", "k", "condition", "seed", "a", "b"]
    names += ["recovered", "donor_answer", "permuted_answer"]
    return pd.DataFrame(rows, columns=names)


def plain(pairs, direction, operator, k, half=""):
    """Both values of each pair, the problems, the control and its draws, by contrast; plain loops."""
    values, draws = {}, {}
    for row in pairs.itertuples():
        own = (f"{row.donor}_to_{row.target}", row.operator, row.k) == (direction, operator, k)
        if own and not (half and row.condition in REPEATED):
            name, got = row.condition.removeprefix(half), (row.recovered, row.donor_answer, row.permuted_answer)
            values.setdefault(name, {}).setdefault((row.a, row.b), []).append(got)
            draws.setdefault(name, {}).setdefault(row.seed, []).append(row.recovered)
    mean = {name: {pair: np.mean(got, axis=0) for pair, got in own.items()} for name, own in values.items()}

    def both(first, second, control="", column=0, less=None):
        first, second = mean.get(first, {}), mean.get(second, {})
        common = [pair for pair in first if pair in second]
        compared = ([own[pair][at] for pair in common] for own, at in ((first, column), (second, less or column)))
        drawn = [np.mean(own) for own in draws[control].values()] if DRAWS.get(control) else []
        drawn = {f"{operator} {control}": np.array(drawn)} if drawn else {}
        return *map(np.array, compared), [(operator, *pair) for pair in common], control, drawn

    baselines = sorted({"no_donor", "mismatched", *DRAWS} & {*mean})
    control = max(baselines, key=lambda name: np.mean([got[0] for got in mean[name].values()]), default="none")
    return {
        "matched_minus_baseline": both("matched", control, control),
        "matched_minus_same_answer": both("matched", "same_answer"),
        "matched_minus_copied_answer": both("matched", "copied_answer"),
        "imposed": both("mismatched", "mismatched", column=1, less=2),
        "interchange": both("interchange", "interchange", column=1, less=2),
        "interchange_minus_copied": both("interchange", "copied_other", column=1),
    }


@pytest.mark.parametrize("k", [10, 50])
def test_contrasts_are_those_of_plain_loops(tables, k):
    table, cells = contrasts_of(moved(tables), MOVED, [k], 300, 1), {}
    for key in itertools.product(("D_to_T", "T_to_D"), "+-"):
        whole, *halves = (plain(tables, *key, k, half) for half in ("", *HALVES))
        for name, (first, second, *others) in whole.items():
            differences = [(half[name][0] - half[name][1]).mean() if len(first) else np.nan for half in halves]
            cells.setdefault(name, {})[key] = first, second, *others, differences
    assert cells.keys() == {*MOVED}
    for name, own in cells.items():
        check_rows(table[table["contrast"] == name], own, 300, 1)


WRITERS = {
    "injects": partial(planted_models.write_model, shared=True),
    "repairs": planted_models.write_repairing,
    "copies by others": planted_models.write_copying,
}
FORMATS = ("symbolic", "word")


@pytest.fixture(scope="module", params=WRITERS)
def built(request, tmp_path_factory):
    """Name, contrasts over all cells, and rates of all directions of a constructed model."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    WRITERS[request.param](folder, seed=0)
    run = run_of(folder)
    around = request.param == "copies by others"
    copying = {name: COPYING["code" if around else name] for name in FORMATS}
    censuses = {name: census_of(run, TEMPLATES[name], "addition", 1000, 0) for name in FORMATS}
    planted, numbers = planted_models.planted_neurons(True, seed=0), np.arange(WIDTH)
    circuits = {PLANTED: np.stack([np.isin(numbers, planted["word", layer]) for layer in LATE])}
    rank = np.stack([numbers + 1.0] * len(LATE))
    variance = np.random.default_rng(0).random(rank.shape)
    formats = dict.fromkeys(FORMATS, FormatValues(variance, -rank / WIDTH, rank))
    sets = neuron_sets(run, circuits, {}, formats, "addition", Draws(5, 2, 0))
    means = {
        name: last_token_means(run.model, run.tokens(census["prompt"].tolist()), run.first).last_token(run.first)
        for name, census in censuses.items()
    }
    plans = plan(censuses, [], 120, 0, "addition")
    copy = Arithmetic("a", OperandRange(6, 120, 6, 120))
    copies = {
        name: right_copies(run, {"copying": (copy, template)}, answers_of_donors(plans, name), 200, 0)
        for name, template in copying.items()
    }
    done = list(transfer_tables(run, with_copies(plans, copies, 0, "addition"), means, sets, center=True))
    rates, pairs = pd.concat([one for _, one, _ in done]), pd.concat([one for *_, one in done], ignore_index=True)
    table = contrasts_of(pairs.assign(operator="addition", task="addition"), MOVED, [PLANTED], 300, 0)
    whole = overall(table).set_index("contrast")
    return request.param, whole, rates.groupby("condition")[["recovered", "donor_answer"]].mean()


def test_injecting_is_told_from_repairing(built):
    name, contrasts, rates = built
    assert rates.loc["matched", "recovered"] == 1
    beyond, imposed = contrasts.loc["matched_minus_same_answer"], contrasts.loc["imposed"]
    exchanged, repaired = contrasts.loc["interchange"], contrasts.loc["matched_minus_baseline"]
    assert repaired["verdict"] == "yes"
    if name != "repairs":
        assert (beyond["difference"], beyond["verdict"]) == (0, "undecided")
        assert (imposed["first"], imposed["verdict"]) == (1, "yes")
        assert min(imposed["difference"], exchanged["difference"]) > 0.9
    else:
        # Chance: another pair with the same sum has the same sum of parts, or another pair the same rest.
        assert beyond["difference"] > 0.9
        assert beyond["verdict"] == "yes"
        assert imposed["high"] < 0.1


def test_copied_answers_tell_neurons_that_write_from_neurons_that_compute(built):
    """Neurons that inject write any number, even a copied one; neurons that repair carry no answer."""
    name, contrasts, rates = built
    repaired, imposed = (contrasts.loc[key] for key in ("matched_minus_copied_answer", "interchange_minus_copied"))
    assert min(repaired["prompts"], imposed["prompts"]) >= 50
    if name == "injects":
        for contrast in (repaired, imposed):
            assert (contrast["difference"], contrast["verdict"]) == (0, "undecided")
        assert rates.loc["copied_other", "donor_answer"] == rates.loc["copied_answer", "recovered"] == 1
    else:
        assert repaired["verdict"] == "yes"
        assert repaired["difference"] > 0.9
        # Neurons that carry no answer impose none, computed or copied.
        assert imposed["verdict"] == ("yes" if name == "copies by others" else "undecided")
        assert rates.loc["copied_other", "donor_answer"] < 0.1


@pytest.mark.parametrize(
    ("name", "place", "what"),
    [("matched_minus_copied_answer", 1, "repair"), ("interchange_minus_copied", 3, "override")],
)
@pytest.mark.parametrize(("low", "high"), [(0.1, 0.3), (-0.1, 0.5), (np.nan, np.nan)])
def test_only_what_a_copied_answer_does_not_do_is_called_arithmetic(name, place, what, low, high):
    limits = {"difference": 0.2, "prompts": 20, "low": np.nan, "high": np.nan, "verdict": "undefined"}
    table = crossed(CONTRASTS, contrast=MOVED, format=ALL, operator=ALL, k=10, metric=RATE, **limits)
    table.loc[table["contrast"] == name, ["low", "high", "verdict"]] = low, high, verdict(low, high)
    cells = {"operator": ["+", "-"], "donor": ["s", "w"], "target": ["s", "w"]}
    rates = crossed(TRANSFER, "operator donor target", **cells, k=10, condition="matched").iloc[[0, 0, 1, 2, 4]]
    rates = rates.assign(recovered=[0.1, 0.1, 0.5, 0.5, 0.5], n_neurons=[3, 0, 0, 0, 0])
    sentences = [one.sentence for one in answer({"transfer": rates, "contrasts": table}, 10)]
    assert "40%" in sentences[0], "a cell counts once"
    assert ["arithmetic" in sentence for sentence in sentences] == [
        low > 0 and at == place for at in range(len(sentences))
    ]
    assert (f"{what} is arithmetic" in sentences[place]) == (low > 0)
