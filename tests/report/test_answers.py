"""The report's sentences have the numbers of the tables, in their order; other stages' tests have their own."""

import pandas as pd
import pytest
from example_tables import crossed, filled

from form_invariance.beyond.engine_check import answer as engine_check
from form_invariance.beyond.engine_check.table import COMPARED, ENGINE_CHECK
from form_invariance.experiment.answers import percent
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.stages.census import answer as census
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset import answer as dataset
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.interventions import answer as interventions
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.probe import answer as probe
from form_invariance.stages.probe.table import PROBE
from form_invariance.stages.transfer import answer as transfer
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.columns import ALL


def test_the_worst_and_the_best_cell_of_the_uniform_sample():
    right = {("w", "-"): [1, 0, 0, 0], ("w", "+"): [1, 1, 0, 0], ("s", "-"): [1, 1, 1, 0], ("s", "+"): [1, 0]}
    rows = [(*cell, True, one) for cell, own in right.items() for one in own]
    rows += [(*cell, False, 1) for *cell, _, _ in rows]
    table = filled(CENSUS, rows, "format operator uniform correct", keys="format operator")
    (told,) = census.answer({"census": table}, 0)
    assert told.sentence == "It answers 25.0% (w -) to 75.0% (s -) of the problems correctly."
    assert told.table.values.tolist() == [["-", 0.25, 0.75], ["+", 0.5, 0.5]]
    assert [percent(value) for value in (-0.001, float("nan"))] == ["0%", "undefined"]


def test_answers_that_are_in_both_splits():
    splits = {("w", "+"): ([1, 2], [3, 4, 5]), ("s", "+"): ([1, 2, 1], [2, 2, 3])}
    rows = [
        (*cell, split, answer)
        for cell, own in splits.items()
        for split, answers in zip(("train", "eval"), own, strict=True)
        for answer in answers
    ]
    table = filled(DATASET, rows, "format operator split answer", keys="format operator")
    (told,) = dataset.answer({"dataset": table}, 0)
    assert told.sentence.startswith("Answers are in both splits in 1 of 2 cells, because")
    assert told.sentence.endswith("up to 67% of a cell's eval prompts have an answer that a train prompt has.")
    assert told.table.values.tolist() == [["+", "s", 2, 2, 1, pytest.approx(2 / 3)]]
    assert dataset.answer({"dataset": table[table["format"] == "w"]}, 0) == []


def test_the_first_layer_from_which_more_than_half_is_read_and_the_best():
    accuracies = {"s": [0.2, 0.6, 0.9, 0.8], "w": [0.1, 0.2, 0.5, 0.4], "c": [0.6, 0.7, 0.7, 0.6]}
    rows = [(name, name, name, *pair) for name, own in accuracies.items() for pair in enumerate(own)]
    names = "format trained tested layer accuracy"
    table = filled(PROBE, rows, names, keys="format", operator="all", position=0)
    (told,) = probe.answer({"probe": table}, 0)
    assert told.sentence.endswith("half of the answers from layer 1 (s), no layer (w), layer 0 (c) onwards.")
    assert told.table["onset layer"].tolist() == [1, "no layer", 0]
    assert told.table["best layer"].tolist() == [2, 2, 1]
    assert told.table["accuracy there"].tolist() == [0.9, 0.5, 0.7]


def test_the_circuit_and_its_strongest_control_by_every_metric():
    numbers = {"first": 0.3, "second": 0.2, "difference": 0.1, "low": 0.05, "high": 0.15, "verdict": "yes"}
    names = {"intervention": ["keep_only", "knockout"], "metric": ["faithfulness", "accuracy", "probability"]}
    names |= {"format": ["s", "w", "all"], "operator": ["+", "all"]}
    names |= {"contrast": "circuit_minus_control_everywhere"}
    table = crossed(CONTRASTS, k=10, **names, **numbers)
    cells = {"neurons": "circuit", "intervention": "knockout", "positions": "all", "means": "format", "k": 10}
    sizes = filled(
        INTERVENTIONS, [("s", "+", 5), ("w", "+", 0)], "format operator n_neurons", "format operator", **cells
    )
    table = table[(table["format"] == "all") == (table["operator"] == "all")]
    table.loc[table["metric"] == "accuracy", "difference"] = None
    for told in interventions.answer({"contrasts": table, "interventions": sizes}, 10):
        said = "probability 0.300 (strongest control 0.200; difference 0.100, 95% interval 0.050 to 0.150)"
        assert f"accuracy undefined, {said}" in told.sentence
        assert "means over 1 cells." in told.sentence
        assert told.sentence.endswith("metric: yes. In 1 of 2 cells no neuron is shared; they are left out.")


def test_the_largest_error_of_the_engine():
    rows = [("patch", 10, 0.002, 4.0, 3e-6), ("patch", 20, 0.001, 3.0, 5e-6), ("no_op", 5, 1e-9, 4.0, 1e-9)]
    rows.append(("transfer", 7, 0.1, 9.0, 8e-6))
    names = "check values difference scale error"
    table = filled(ENGINE_CHECK, rows, names, status=COMPARED, dtype="float32", tolerance=1e-4, prompts=2)
    (told,) = engine_check.answer({"engine_check": table}, 0)
    for said in (
        "Of 42 values",
        "error is 8.0e-06; the precision allows 1e-04",
        "up to 4 and differ by at most 2.0e-03",
    ):
        assert said in told.sentence
    (told,) = engine_check.answer({"engine_check": table.assign(status="no hooks")}, 0)
    assert told.sentence == "It was not checked: no hooks."


MOVED = ("matched_minus_baseline", "matched_minus_same_answer", "matched_minus_copied_answer", "imposed")
MOVED += ("interchange", "interchange_minus_copied")


def test_a_section_says_the_verdict_and_the_pairs_of_the_first_table():
    """The cases: a tiny difference, operators that disagree, too few pairs."""
    moved = [("a", "b", "+", 40, 0.5), ("b", "a", "+", 30, 0.4), ("a", "b", "-", 0, None)]
    keys = "donor target operator"
    rates = filled(TRANSFER, moved, f"{keys} pairs recovered", keys, condition="matched", k=10, n_neurons=3)
    limits = {"first": 0.5, "second": 0.1, "low": 0.01, "high": 0.6, "k": 10, "format": "all", "cells": 2}
    for (value, pooled, each, prompts), said in (
        ((0.04, "yes", "yes", 70), "4% [1%, 60%] (yes, tiny; n = 70 in 2 cells)"),
        ((0.4, "undecided", "no", 70), "40% [1%, 60%] (mixed; n = 70 in 2 cells)"),
        ((0.4, "yes", "yes", 9), "beyond the rate of permuted donors: undefined."),
    ):
        rows = [(ALL, value, prompts, pooled), ("+", 0.5, prompts, "yes"), ("-", -0.5, prompts, each)]
        names = "operator difference prompts verdict"
        parts = [filled(CONTRASTS, rows, names, contrast=one, metric="rate", **limits) for one in MOVED]
        repaired, *_, imposed, _ = transfer.answer({"transfer": rates, "contrasts": pd.concat(parts)}, 10)
        assert said in imposed.sentence
        assert imposed.table["verdict"].iloc[0] in said
        assert "45% of the wrong answers become correct (n = 70 in 2 cells)" in repaired.sentence
