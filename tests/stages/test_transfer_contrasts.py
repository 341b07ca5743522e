"""The contrasts of transfer by brute force, and on models that were built to inject, repair and copy answers."""

import copying_model
import numpy as np
import pandas as pd
import planted_models
import pytest
import repairing_model
import torch
from example_tables import crossed
from planted_models import EXPRESSION, LATE, LIMITS, PLANTED, TEMPLATES, WIDTH
from scipy.stats import t

from form_invariance.experiment.contrasts import ALL, FEWEST, overall, verdict
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.run import Run
from form_invariance.model import loading as models
from form_invariance.model.files import resolve
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.randomness import generator
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.mean_cache.compute import last_token_means
from form_invariance.stages.transfer import figure
from form_invariance.stages.transfer.answer import answer
from form_invariance.stages.transfer.conditions import plan
from form_invariance.stages.transfer.contrasts import CONTRASTS, contrast_table
from form_invariance.stages.transfer.copies import answers_of_donors, right_copies, with_copies
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets
from form_invariance.stages.transfer.table import TRANSFER, TRANSFER_CONTRASTS

HALVES = ("half_1_", "half_2_")
REPEATED = ("matched", "mismatched", "same_answer", "interchange", "copied_answer", "copied_other")
DRAWS = {"random": 3, "random_variance": 2, "not_shared": None}


@pytest.fixture(scope="module")
def tables():
    """Transfer table and table by pair of made-up cells: two operators, two directions, two k."""
    rng = np.random.default_rng(0)
    rows, cells = [], []
    for operator in ("+", "-"):
        for donor, target in (("D", "T"), ("T", "D")):
            for k in (10, 50):
                cells.append((operator, donor, target, k, "matched", 0.5))
                if (operator, donor, k) == ("-", "T", 10):
                    continue  # nothing is shared there
                pairs = [(a, a + 1) for a in rng.permutation(40)[: rng.integers(8, 20)]]
                others = ("mismatched", "same_answer", "no_donor", "interchange", "harm_matched")
                others += ("copied_answer", "copied_other")
                others += tuple(half + name for half in HALVES for name in REPEATED)
                for condition in ("matched", *others, *DRAWS):
                    for seed in range(DRAWS[condition]) if DRAWS.get(condition) else [-1]:
                        for a, b in pairs:
                            if condition.endswith(("same_answer", "copied_answer", "copied_other")) and a % 3 == 0:
                                continue
                            flags = rng.random(2) < rng.random()
                            rows.append((operator, donor, target, k, condition, seed, a, b, *flags, rng.random()))
    names = ["operator", "donor", "target", "k", "condition", "seed", "a", "b"]
    names += ["recovered", "donor_answer", "permuted_answer"]
    transfer = pd.DataFrame(cells, columns=["operator", "donor", "target", "k", "condition", "recovered"])
    return transfer, pd.DataFrame(rows, columns=names)


def plain(pairs, operator, direction, k, half=""):
    """By contrast: its values by pair, with the circuit or that by half of the train prompts; by loops."""
    donor, target = direction.split("_to_")
    by = {}
    for row in pairs.itertuples():
        if (row.operator, row.donor, row.target, row.k) == (operator, donor, target, k):
            if half and row.condition in REPEATED:
                continue
            by.setdefault(row.condition.removeprefix(half), {}).setdefault((row.a, row.b), []).append(
                (row.recovered, row.donor_answer, row.permuted_answer)
            )
    mean = {name: {pair: np.mean(got, axis=0) for pair, got in own.items()} for name, own in by.items()}
    if not mean:
        return {name: [] for name in CONTRASTS}, {}

    def minus(other, first="matched", value=0):
        return [got[value] - mean[other][pair][value] for pair, got in mean[first].items() if pair in mean[other]]

    def strongest(*names):
        return max(sorted(names), key=lambda name: np.mean([got[0] for got in mean[name].values()]))

    control = {"matched_minus_baseline": strongest("no_donor", "mismatched", *DRAWS)}
    found = {
        "matched_minus_baseline": minus(control["matched_minus_baseline"]),
        "matched_minus_same_answer": minus("same_answer"),
        "imposed": [got[1] - got[2] for got in mean["mismatched"].values()],
        "interchange": [got[1] - got[2] for got in mean["interchange"].values()],
        "matched_minus_mismatched": minus("mismatched"),
        "matched_minus_copied_answer": minus("copied_answer"),
        "interchange_minus_copied": minus("copied_other", "interchange", value=1),
    }
    return found, control


def plain_noise(pairs, cells, contrast, row):
    """Half of the interval by the noise of rankings: squared half differences, in the mean over rows alike."""
    differences = {}
    for operator, direction in cells:
        one, other = (plain(pairs, operator, direction, row.k, half)[0][contrast] for half in HALVES)
        differences.setdefault(operator, []).append((np.mean(one) - np.mean(other)) / 2)
    squares = [value**2 for own in differences.values() for value in own]
    if row.direction == ALL:
        squares = [np.mean(own) ** 2 for own in differences.values()]
    averaged = len(differences) if row.operator == ALL else 1
    return t.ppf(0.975, len(differences)) * (np.mean(squares) / averaged) ** 0.5


def test_contrasts_are_those_of_plain_loops(tables):
    transfer, pairs = tables
    table = contrast_table(transfer, pairs, resamples=300, seed=1)
    assert len(table) == len(CONTRASTS) * 2 * (4 + 2 + 1)
    means = {}
    for row in table[table["direction"] != ALL].itertuples():
        values, control = plain(pairs, row.operator, row.direction, row.k)
        values = values[row.contrast]
        assert row.control == control.get(row.contrast, "none" if row.contrast == "matched_minus_baseline" else "")
        assert (row.prompts, row.cells) == (len(values), int(len(values) >= FEWEST))
        if len(values) < FEWEST:
            assert np.isnan([row.low, row.high]).all()
            assert np.isnan(row.difference) == (not values)
            continue
        assert row.difference == pytest.approx(np.mean(values))
        assert row.low <= row.difference <= row.high
        spread = 4 * np.std(values) / len(values) ** 0.5
        if DRAWS.get(row.control):
            own = pairs[(pairs["operator"] == row.operator) & (pairs["k"] == row.k)]
            own = own[(own["donor"] + "_to_" + own["target"] == row.direction) & (own["condition"] == row.control)]
            draws = own.groupby("seed")["recovered"].mean()
            error = draws.std() * np.sqrt(1 + 1 / len(draws))
            spread = np.hypot(spread, 2 * t.ppf(0.975, len(draws) - 1) * error)
        spread = np.hypot(spread, 2 * row.ranking_noise)
        assert row.high - row.low == pytest.approx(spread, rel=0.3)
        for operator in (row.operator, ALL):
            means.setdefault((row.contrast, row.k, operator), []).append((row.difference, len(values)))
    for row in table[table["direction"] == ALL].itertuples():
        cells = means[row.contrast, row.k, row.operator]
        assert row.difference == pytest.approx(np.mean([value for value, _ in cells]))
        assert (row.cells, row.prompts) == (len(cells), sum(n for _, n in cells))
        assert row.low < row.difference < row.high
    for row in table.itertuples():
        known = [
            (other.operator, other.direction)
            for other in table[table["direction"] != ALL].itertuples()
            if (other.contrast, other.k) == (row.contrast, row.k) and other.cells
        ]
        if row.cells:
            assert row.ranking_noise == pytest.approx(plain_noise(pairs, known, row.contrast, row))


def test_a_cells_interval_is_the_bootstraps(tables):
    transfer, pairs = tables
    table = contrast_table(transfer, pairs[~pairs["condition"].str.startswith(HALVES)], resamples=200, seed=3)
    row = table[(table["contrast"] == "imposed") & (table["operator"] == "+") & (table["k"] == 50)].iloc[0]
    own = pairs[(pairs["operator"] == "+") & (pairs["donor"] == "D") & (pairs["k"] == 50)]
    own = own[own["condition"] == "mismatched"].sort_values(["a", "b"])
    problems = zip(own["a"].tolist(), own["b"].tolist(), strict=True)
    times = np.array([generator(3, "bootstrap", "+", *pair).poisson(1, 200) for pair in problems]).T
    resampled = times @ (own["donor_answer"] - own["permuted_answer"]).to_numpy(float) / times.sum(1)
    assert np.quantile(resampled, [0.025, 0.975]) == pytest.approx([row["low"], row["high"]])


WRITERS = {
    "injects": lambda folder: planted_models.write_model(folder, shared=True, seed=0),
    "repairs": lambda folder: repairing_model.write_model(folder, seed=0),
    "copies by others": lambda folder: copying_model.write_model(folder, seed=0),
}
COPYING = {
    "symbolic": "{a}+0=",
    "code": "x = {a} + 0\nprint(x)  # ",
    "word": "Jack has {a} apples. His friend gives him 0 more apples. How many does he have now? Answer:",
}
"""The planted neurons copy a number by adding nothing to it."""
COPY = Arithmetic("a", OperandRange(6, 120, 6, 120))


@pytest.fixture(scope="module", params=WRITERS)
def built(request, tmp_path_factory):
    """Name, contrasts over all cells, and rates of all directions of a constructed model."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    WRITERS[request.param](folder)
    decoder = models.load(resolve(str(folder), None), dtype=torch.float32, device="cpu")
    run = Run(decoder, load_tokenizer(folder), LATE[0])
    around = request.param == "copies by others"
    templates = {name: template for name, template in TEMPLATES.items() if not around or name != "code"}
    copying = dict.fromkeys(templates, COPYING["code"]) if around else COPYING
    censuses = {
        name: take_census(run.model, run.tokenizer, template, "addition", Arithmetic(EXPRESSION, LIMITS), None, 0)
        for name, template in templates.items()
    }
    planted = planted_models.planted_neurons(True, seed=0)
    circuit = pd.DataFrame(
        [(PLANTED, layer, neuron) for layer in LATE for neuron in planted["word", layer]],
        columns=["k", "layer", "neuron"],
    )
    every = pd.DataFrame({"layer": np.repeat(LATE, WIDTH), "neuron": np.tile(np.arange(WIDTH), len(LATE))})
    ranking = every.assign(rank=every["neuron"] + 1, ie_mean=-every["neuron"] / WIDTH)
    variance = np.random.default_rng(0).random((len(LATE), WIDTH))
    formats = {name: measure(run, ranking, variance) for name in templates}
    circuits = {PLANTED: circuit_members(circuit, PLANTED, run.late, run.width)}
    sets = neuron_sets(run, circuits, {}, formats, "addition", Draws(5, 2, 0))
    means = {
        name: last_token_means(run.model, run.tokens(census["prompt"].tolist()), run.first).last_token(run.first)
        for name, census in censuses.items()
    }
    plans = plan(censuses, [], 200, 0, "addition")
    copies = {
        name: right_copies(run, {"copying": (COPY, template)}, answers_of_donors(plans, name), 200, 0)
        for name, template in copying.items()
    }
    moved = list(transfer_tables(run, with_copies(plans, copies, 0, "addition"), means, sets, center=True))
    rates = pd.concat([one for _, one, _ in moved])
    rates, pairs = rates.assign(operator="addition"), pd.concat([one for _, _, one in moved])
    table = contrast_table(rates, pairs.assign(operator="addition"), 300, 0)
    whole = overall(table).set_index("contrast")
    return request.param, whole, rates.groupby("condition")[["recovered", "donor_answer"]].mean()


def test_injecting_is_told_from_repairing(built):
    name, contrasts, rates = built
    assert rates.loc["matched", "recovered"] == 1
    beyond, imposed = contrasts.loc["matched_minus_same_answer"], contrasts.loc["imposed"]
    exchanged, repaired = contrasts.loc["interchange"], contrasts.loc["matched_minus_baseline"]
    assert repaired["verdict"] == "yes"
    if name != "repairs":
        assert (beyond["difference"], imposed["first"]) == (0, 1)
        assert imposed["difference"] > 0.9
        assert beyond["verdict"] == "undecided"
        assert exchanged["difference"] > 0.9
        assert imposed["verdict"] == "yes"
    else:
        # Chance: another pair with the same sum has the same sum of parts, or another pair the same rest.
        assert beyond["difference"] > 0.9
        assert beyond["verdict"] == "yes"
        assert imposed["high"] < 0.1


def test_copied_answers_tell_neurons_that_write_from_neurons_that_compute(built):
    """The neurons that inject write any number, copied ones, too; those that repair carry no answer."""
    name, contrasts, rates = built
    repaired, imposed = (contrasts.loc[key] for key in ("matched_minus_copied_answer", "interchange_minus_copied"))
    assert repaired["prompts"] >= 50
    assert imposed["prompts"] >= 50
    if name == "injects":
        assert (repaired["difference"], imposed["difference"]) == (0, 0)
        assert (repaired["verdict"], imposed["verdict"]) == ("undecided", "undecided")
        assert rates.loc["copied_other", "donor_answer"] == rates.loc["copied_answer", "recovered"] == 1
    else:
        assert repaired["verdict"] == "yes"
        assert repaired["difference"] > 0.9
        # Neurons that carry no answer impose none, computed or copied.
        assert imposed["verdict"] == ("yes" if name == "copies by others" else "undecided")
        assert rates.loc["copied_other", "donor_answer"] < 0.1


def test_ceilings_controls_and_the_reverse_are_as_built(built):
    _, _, rates = built
    # The heads of these late layers read nothing, so the residual stream alone makes the donor's output.
    assert (rates.loc[["all_late", "residual"]] == 1).all(axis=None)
    assert (rates.loc[["random", "random_variance", "random_effect", "not_shared"], "recovered"] == 0).all()
    assert (rates.loc["reverse"] == 1).all()
    assert (rates.loc["harm_matched", "recovered"], rates.loc["harm_random", "recovered"]) == (0, 0)


@pytest.mark.parametrize("name", ["matched_minus_copied_answer", "interchange_minus_copied"])
@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 0.3, "20% [10%, 30%] (yes); so the {} is arithmetic, not the answer alone."),
        (-0.1, 0.5, "20% [-10%, 50%] (undecided); so an answer that was copied may do the same."),
        (np.nan, np.nan, ""),
    ],
)
def test_only_what_a_copied_answer_does_not_do_is_called_arithmetic(name, low, high, said):
    limits = {"difference": 0.2, "low": 0.1, "high": 0.3, "verdict": "yes"}
    table = crossed(TRANSFER_CONTRASTS, contrast=[*CONTRASTS], direction=ALL, operator=ALL, k=10, **limits)
    copying = table["contrast"].isin(["matched_minus_copied_answer", "interchange_minus_copied"])
    table.loc[copying, ["low", "high", "verdict"]] = np.nan, np.nan, "undefined"
    table.loc[table["contrast"] == name, ["low", "high", "verdict"]] = low, high, verdict(low, high)
    rates = crossed(TRANSFER, "operator", operator="+", k=10, condition=["matched"], n_neurons=3, recovered=0.5)
    sentences = [one.sentence for one in answer({"transfer": rates, "transfer_contrasts": table}, 10)]
    place, what = (1, "repair") if name.startswith("matched") else (3, "override")
    assert sentences[place].endswith(said.format(what))
    assert ["arithmetic" in sentence for sentence in sentences] == [low > 0 and at == place for at in range(4)]


def test_contrasts_with_copies_have_panels_where_there_are_copies():
    keys = {"direction": ALL, "operator": [ALL, "+"], "k": [10, 50], "low": 0.1, "high": 0.3}
    table = crossed(TRANSFER_CONTRASTS, contrast=[*CONTRASTS], difference=0.2, **keys)
    every = list(figure.TITLES.values())
    without = [figure.TITLES[name] for name in figure.TITLES if name not in figure.COPYING]
    assert len(without) == len(every) - 2
    for titles in (every, without):
        drawn = figure.transfer_contrasts({"transfer_contrasts": table}, "m", 10)
        assert [axes.get_title() for axes in drawn.axes] == titles
        table.loc[table["contrast"].isin(figure.COPYING), "difference"] = np.nan
