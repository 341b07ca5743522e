"""The verdicts' nulls: what is put in the circuit's place, and that true nulls are rarely rejected."""

import subprocess
import sys
from itertools import product

import measured
import nulls
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.measurements import MEASUREMENTS
from form_invariance.experiment.neuron_sets import CIRCUIT, CONTROL_OF, FAIR, MATCHED, OWN_BEST, PART_OF_BEST

NAMES = ["format", "operator", "k", "task", "neurons", "seed"]
SETS = [("circuit", -1), ("best_in_s", -1), ("best_in_c", -1)]
SETS += [(kind + of, draw) for kind in FAIR for of in ("", CONTROL_OF + OWN_BEST) for draw in range(3)]
SETS += [(PART_OF_BEST, draw) for draw in range(3)]


def lost_answers(rng, operators=("+", "-", "*"), problems=60):
    """Circuits cost their own operator's answers, the best of all formats alike, mostly on the same problems."""
    rows = []
    for size, task in enumerate(operators):
        hard = rng.random(2 * problems) < 0.3 + 0.2 * size
        for name in "sc":
            asked = rng.permutation(int(1.3 * problems))[:problems]
            for operator, (neurons, draw) in product(operators, SETS):
                chance = 0.9 if operator == task and neurons.startswith(("circuit", "best")) else 0.1
                lost = (hard[asked] & (rng.random(problems) < chance)).astype(int)
                cell = name, operator, 10, task, neurons, draw, -1
                rows += [(*cell, *one) for one in zip(asked.tolist(), lost.tolist(), strict=True)]
    table = pd.DataFrame(rows, columns=[*NAMES, "a", "b", "lost"])
    # A set keeps alone what its knockout loses.
    kept = table.assign(lost=1 - table["lost"])
    before = table.drop_duplicates(["format", "task", "b"]).assign(neurons="none", lost=0, k=0)
    before = before.assign(operator=before["task"])
    parts = {"knockout": table, "keep_only": kept, "good": before}
    every = pd.concat([rows.assign(intervention=how) for how, rows in parts.items()], ignore_index=True)
    every = every.assign(index=every["b"], correct=1 - every["lost"], margin=-every["lost"])
    return measured.rows_of(every.assign(probability=1 - 0.6 * every["lost"]))


def test_unchanged_tables_have_the_answers_that_they_were_made_with(monkeypatch):
    """So a trial that finds nothing would find something."""
    unchanged = {null: (lambda lost, rng: lost, *rest) for null, (_, *rest) in nulls.NULLS.items()}
    monkeypatch.setattr(nulls, "NULLS", unchanged)
    monkeypatch.setattr(nulls, "TRIALS", 1)
    trials = [*nulls.dose_trials(lost_answers(np.random.default_rng(6)), 200, 0)]
    trials = [one for one in trials if one["null"] != "a control is the circuit"]
    assert {one["null"] for one in trials} == {*unchanged}
    said = {(one["question"], one["verdict"]) for one in trials}
    # No task copies.
    assert said == {("exchange", "yes"), ("specific", "yes"), ("computed", "undefined")}


DRAWS = 4


def made_up(rng, problems=40, formats="sc", operators="+-*"):
    """Tables by prompt in which every null is true: sets differ by noise alone, and donors give no answer."""
    rows = []
    for name, operator, number in product(formats, operators, range(problems)):
        hard, cell = rng.random(), {"format": name, "operator": operator, "task": operator}
        cell |= {"index": number, "a": 1, "b": number}
        sets = {(CIRCUIT, -1), *product(("random", *MATCHED), range(DRAWS))}
        for how, (neurons, draw) in product(("keep_only", "knockout"), sorted(sets)):
            right = rng.random() < 0.3 + 0.4 * hard
            values = {"correct": right, "probability": 0.6 * right, "faithfulness": 0.6 * right}
            rows.append({**cell, "neurons": neurons, "seed": draw, "k": 10, "intervention": how, **values})
        values = {"correct": True, "probability": 1.0, "faithfulness": 1.0}
        rows.append({**cell, "neurons": "none", "seed": -1, "k": 0, "intervention": "good", **values})
    ablated = measured.rows_of(pd.DataFrame(rows), positions="all", means="format")
    rows, kinds = [], [*product(("matched", "same_answer", "mismatched", "interchange"), [-1])]
    kinds += product(nulls.CONTROLS, range(DRAWS))
    for (donor, target), operator, number in product([("s", "c"), ("c", "s")], operators, range(problems)):
        cell = {"operator": operator, "donor": donor, "target": target, "k": 10, "a": 1, "b": number}
        for condition, draw in kinds:
            values = {"recovered": rng.random() < 0.3, "donor_answer": rng.random() < 0.2, "permuted_answer": 0.2}
            rows.append({**cell, "condition": condition, "seed": draw, **values})
    moved = measured.moved(pd.DataFrame(rows)).assign(index=lambda table: table["b"])
    return {"interventions_prompts": ablated, "transfer_pairs": moved, "dose_prompts": lost_answers(rng)}


def test_every_question_is_seldom_answered_where_its_null_is_true(monkeypatch):
    """A few trials; the nightly test has many, on the demo's tables."""
    monkeypatch.setattr(nulls, "TRIALS", 3)
    table = nulls.rates(nulls.trials(made_up(np.random.default_rng(0)), 200, 0))
    asked = {*table.index.get_level_values("question")}
    assert asked == {*QUESTIONS} - {"same", "meet", "served"}, "overlaps and the exchange of states have their own"
    share = table["trials"] @ table[["yes", "no"]] / table["trials"].sum()
    assert (share < 0.1).all(), table.to_string()


@pytest.mark.nightly
def test_the_table_of_false_verdicts(tmp_path):
    """The table of docs/results.md: the demo's model whose formats share neurons."""
    folder, how = tmp_path / "embedded-shared", {"resamples": 2000, "seed": 0}
    command = [sys.executable, "-m", "snakemake", f"{folder}/shared/verdicts.parquet", "--cores", "2"]
    configured = ["--configfile", "config/demo.yaml", "--config", f"results={tmp_path}"]
    subprocess.run([*command, *configured], cwd=ROOT, check=True)

    def read(pattern):
        return pd.concat(map(pd.read_parquet, sorted(folder.glob(pattern))), ignore_index=True)

    paths = {
        "interventions_prompts": "*/*/interventions_prompts.parquet",
        "dose_prompts": "*/*/dose_prompts.parquet",
        "transfer_pairs": "shared/*/transfer_pairs.parquet",
    }
    assert paths.keys() == MEASUREMENTS.keys() - {"specificity_prompts"}, "on tasks nothing but copying is asked"
    trials = [*nulls.trials({name: read(pattern) for name, pattern in paths.items()}, **how)]
    table = nulls.rates(trials)
    print(table.round(2).to_string())
    known = {*nulls.NULLS, *(null for *_, null in nulls.DONORS.values())}
    assert {*table.index.get_level_values("null")} == known | {"a control is the circuit", "permuted donors"}
    assert (table[["yes", "no"]] <= 0.06).all(axis=None)
