"""Contrasts of circuits with their strongest control, against plain loops over prompts and draws."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.experiment.contrasts import ALL, SEVERAL, verdict
from form_invariance.randomness import generator
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.interventions.answer import answer
from form_invariance.stages.interventions.contrasts import METRICS, cell_of, contrast_table
from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS, INTERVENTIONS, INTERVENTIONS_PROMPTS
from form_invariance.tables.columns import Column
from form_invariance.tables.files import read_table, write_table

PROMPTS, SEED, RESAMPLES = 12, 7, 200
# By name, with numbers of draws whose means of flags are exact: equal controls are equal to the bit.
DRAWS = {
    **{"circuit": [-1], "random": [0, 1, 2, 3], "random_effect": [0, 1]},
    **{"random_variance": [0, 1]},
}
SCHEMAS = INTERVENTIONS, INTERVENTIONS_PROMPTS, DATASET
COLUMN = {"faithfulness": "faithfulness", "accuracy": "correct", "probability": "probability"}


def made_up(seed, filled=(10, 50)):
    """An interventions table and its table by prompt of one cell; the third prompt has no faithfulness.

    Of the sizes 10 and 50, the circuits of those in `filled` have neurons.
    """
    rng = np.random.default_rng(seed)
    rows = [("good", "all", "format", "none", 0, -1, i, 1.0, True, 0.9 - i / 100) for i in range(PROMPTS)]
    for kind, positions, means, k in itertools.product(
        ("keep_only", "knockout"), ("all", "last"), ("format", "template"), filled
    ):
        for neurons, draws in DRAWS.items():
            for draw, index in itertools.product(draws, range(PROMPTS)):
                values = rng.random(), bool(rng.random() < 0.5), rng.random()
                rows.append((kind, positions, means, neurons, k, draw, index, *values))
    names = ["intervention", "positions", "means", "neurons", "k", "seed", "index", *COLUMN.values()]
    prompts = pd.DataFrame(rows, columns=names).assign(normalized_logit=0.5)
    prompts.loc[prompts["index"] == 2, "faithfulness"] = np.nan
    summary = pd.DataFrame(
        [
            (kind, "all", "format", "circuit", k, 7 * (k in filled))
            for kind, k in itertools.product(("keep_only", "knockout"), (10, 50))
        ],
        columns=[*names[:5], "n_neurons"],
    )
    # Each cell asks problems of its own, and some that all cells ask.
    problems = np.where(np.arange(PROMPTS) < 8, 0, 100 * seed) + np.arange(PROMPTS)
    dataset = pd.DataFrame({"split": "eval", "index": np.arange(PROMPTS), "a": problems, "b": problems + 1})
    return summary, prompts, pd.concat([dataset.assign(split="train", a=7), dataset[::-1]])


def plain_means(dataset, operator, difference):
    """Its mean in every resample, over the problems where it is known, by loops."""
    eval_rows = dataset[dataset["split"] == "eval"].set_index("index")
    total, weight = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    for index, value in enumerate(difference):
        if not np.isnan(value):
            a, b = eval_rows.loc[index, ["a", "b"]]
            times = generator(SEED, "bootstrap", operator, int(a), int(b)).poisson(1, RESAMPLES)
            total, weight = total + times * value, weight + times
    return total / weight


def plain_contrast(prompts, intervention, k, metric):
    """Strongest control, and circuit, control and difference on each prompt, by loops."""
    rows = prompts.query("positions == 'all' and means == 'format'").to_dict("records")

    def value(wanted, neurons, size, index):
        found = [
            float(row[COLUMN[metric]])
            for row in rows
            if (row["intervention"], row["neurons"], row["k"], row["index"]) == (wanted, neurons, size, index)
        ]
        return sum(found) / len(found)

    def told(neurons, index):
        done = value(intervention, neurons, k, index)
        return done if intervention == "keep_only" else value("good", "none", 0, index) - done

    by_neurons = {neurons: np.array([told(neurons, index) for index in range(PROMPTS)]) for neurons in DRAWS}
    circuit = by_neurons.pop("circuit")
    strongest = max(by_neurons, key=lambda neurons: np.nanmean(by_neurons[neurons]))
    return strongest, circuit, by_neurons[strongest]


def plain_draws(prompts, intervention, k, metric, control):
    """Mean of each draw of a control, by loops."""
    rows = prompts.query("positions == 'all' and means == 'format'").to_dict("records")
    means = []
    for draw in DRAWS[control]:
        values = [
            float(row[COLUMN[metric]])
            for row in rows
            if (row["intervention"], row["neurons"], row["k"], row["seed"]) == (intervention, control, k, draw)
        ]
        means.append(np.nanmean(values))
    return np.array(means)


def widened(limits, middle, draws):
    """An interval and a Student interval around the same value, their halves added as squares.

    Args:
        draws: the values of independent sets of draws, whose sum is subtracted.
    """
    squares = [values.var(ddof=1) * (1 + 1 / len(values)) for values in draws]
    if not any(squares):  # equal draws
        return limits
    freedom = sum(squares) ** 2 / sum(
        square**2 / (len(values) - 1) for square, values in zip(squares, draws, strict=True)
    )
    half = t.ppf(0.975, freedom) * np.sqrt(sum(squares))
    return [middle + sign * np.hypot(limit - middle, half) for sign, limit in zip((-1, 1), limits, strict=True)]


@pytest.fixture(scope="module")
def cells():
    return {
        ("word", "addition"): made_up(0),
        ("code", "addition"): made_up(1),
        ("code", "division"): made_up(2, [50]),
    }


@pytest.fixture(scope="module")
def table(cells):
    return contrast_table({key: cell_of(*tables) for key, tables in cells.items()}, RESAMPLES, SEED)


def test_each_cell_equals_plain_loops(cells, table):
    chosen = set()
    for row in table[table["format"] != ALL].to_dict("records"):
        if not row["n_neurons"]:
            continue
        prompts = cells[row["format"], row["operator"]][1]
        name, circuit, control = plain_contrast(prompts, row["intervention"], row["k"], row["metric"])
        chosen.add(name)
        assert row["control"] == name
        assert row["first"] == pytest.approx(np.mean(circuit[~np.isnan(circuit)]))
        assert row["second"] == pytest.approx(np.nanmean(control))
        difference = (circuit - control)[~np.isnan(circuit)]
        assert row["difference"] == pytest.approx(difference.mean())
        assert row["prompts"] == len(difference) == PROMPTS - (row["metric"] == "faithfulness")
        dataset = cells[row["format"], row["operator"]][2]
        means = plain_means(dataset, row["operator"], circuit - control)
        draws = plain_draws(prompts, row["intervention"], row["k"], row["metric"], name)
        expected = widened(np.quantile(means, [0.025, 0.975]), difference.mean(), [draws])
        np.testing.assert_allclose([row["low"], row["high"]], expected, atol=1e-15)
        assert (row["cells"], row["n_neurons"]) == (1, 7)
    assert len(chosen) > 2, "else the choice of the control is not tested"


def test_all_cells_are_those_with_neurons(cells, table):
    for row in table[table["format"] == ALL].to_dict("records"):
        wanted = [
            key
            for key in cells
            if row["operator"] in (ALL, key[1]) and (row["k"] == 50 or key != ("code", "division"))
        ]
        if not wanted:
            continue
        found = [plain_contrast(cells[key][1], row["intervention"], row["k"], row["metric"]) for key in wanted]
        assert row["cells"] == len(wanted)
        assert row["n_neurons"] == 7 * len(wanted)
        names = {name for name, _, _ in found}
        assert row["control"] == (names.pop() if len(names) == 1 else SEVERAL)
        for column, place in (("first", 1), ("second", 2)):
            assert row[column] == pytest.approx(np.mean([np.nanmean(one[place]) for one in found]))
        means = np.zeros(RESAMPLES)
        for key, (_, circuit, control) in zip(wanted, found, strict=True):
            means += plain_means(cells[key][2], key[1], circuit - control) / len(wanted)
        by_stream = {}  # an operator's draws of one kind are the same neurons in all its formats
        for key, (control, _, _) in zip(wanted, found, strict=True):
            draws = plain_draws(cells[key][1], row["intervention"], row["k"], row["metric"], control)
            by_stream.setdefault((key[1], control), []).append(draws / len(wanted))
        limits = np.quantile(means, [0.025, 0.975])
        expected = widened(limits, row["difference"], [sum(draws) for draws in by_stream.values()])
        np.testing.assert_allclose([row["low"], row["high"]], expected, atol=1e-15)


def test_a_circuit_without_neurons_has_a_row_and_no_values(table):
    empty = table[table["n_neurons"] == 0]
    assert len(empty) == 2 * 2 * len(METRICS), "the cell, and its operator"
    assert set(empty["operator"]) == {"division"}
    assert (empty["control"] == "none").all()
    assert (empty[["prompts", "cells"]] == 0).to_numpy().all()
    assert empty[["first", "second", "difference", "low", "high"]].isna().to_numpy().all()


def test_a_circuit_without_a_control_has_its_value_and_no_difference(cells):
    summary, prompts, dataset = cells["word", "addition"]
    alone = prompts[prompts["neurons"].isin(["none", "circuit"])]
    table = contrast_table({("word", "addition"): cell_of(summary, alone, dataset)}, RESAMPLES, SEED)
    cell = table[table["format"] == "word"]
    assert cell["first"].notna().all()
    assert (cell["control"] == "none").all()
    assert table[["second", "difference", "low", "high"]].isna().to_numpy().all()


def test_the_command_writes_what_the_function_gives(cells, table, tmp_path):
    words = ["intervention-contrasts", "--bootstrap", str(RESAMPLES), "--seed", str(SEED)]
    paths = {"--interventions": [], "--by-prompt": [], "--datasets": []}
    for key, tables in cells.items():
        for option, schema, own in zip(paths, SCHEMAS, tables, strict=True):
            path = tmp_path / f"{schema.name}_{'_'.join(key)}.parquet"
            write_table(completed(own, schema), path, schema, {}, dict(zip(schema.keys, ("m", *key), strict=True)))
            paths[option].append(str(path))
    given = [word for option, items in paths.items() for word in (option, *items)]
    assert main([*words, *given, "--output", str(tmp_path / "x.parquet")]) == 0
    found = read_table(tmp_path / "x.parquet", INTERVENTION_CONTRASTS)
    pd.testing.assert_frame_equal(found, table[found.columns], check_dtype=False)


def test_a_dataset_of_other_prompts_is_refused(cells):
    summary, prompts, dataset = cells["word", "addition"]
    with pytest.raises(UserError, match=r"no eval prompt 11, .* the same run"):
        cell_of(summary, prompts, dataset[dataset["index"] < 11])


def completed(own, schema):
    """A table in which every missing column is 0."""
    zeros = {"int64": 0, "float64": 0.0, "bool": False, "string": ""}
    missing = {name: zeros[column.type] for name, column in schema.columns.items() if name not in own}
    assert all(isinstance(column, Column) for column in schema.columns.values())
    return own.assign(**missing)


def rows_with(bounds, n_neurons=(5, 5)):
    """A contrasts table of two cells whose metrics have these (low, high) over all cells."""
    rows = [
        (name, "addition" if name != "all" else "all", kind, metric, n, 0.75, 0.5, low + 0.1, low, high)
        for kind in ("keep_only", "knockout")
        for metric, (low, high) in zip(METRICS, bounds, strict=True)
        for name, n in (("word", n_neurons[0]), ("code", n_neurons[1]), ("all", sum(n_neurons)))
    ]
    names = ["format", "operator", "intervention", "metric", "n_neurons", "first", "second"]
    table = pd.DataFrame(rows, columns=[*names, "difference", "low", "high"])
    verdicts = list(map(verdict, table["low"], table["high"]))
    return table.assign(k=100, control="random_effect", prompts=9, verdict=verdicts)


def test_the_verdict_is_that_of_the_primary_metric_over_cells_with_neurons():
    bounds = [(-0.3, -0.1), (float("nan"),) * 2, (0.2, 0.3)]
    for one in answer({"intervention_contrasts": rows_with(bounds, (0, 5))}, 100):
        assert "By probability, the primary metric: yes." in one.sentence
        assert "faithfulness 0.750 (strongest control 0.500; difference -0.200, 95% interval" in one.sentence
        assert "accuracy undefined" in one.sentence
        assert "means over 1 cells" in one.sentence
        assert one.sentence.endswith("In 1 of 2 cells no neuron is shared; they are left out.")
