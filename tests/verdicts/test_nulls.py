"""The verdicts' nulls: what is put in the circuit's place, and that true nulls are rarely rejected."""

import subprocess
import sys
from itertools import product

import nulls
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT
from form_invariance.beyond.specificity.table import CONTROL_OF, CONTROLS, OTHER_CIRCUITS, OWN_BEST
from form_invariance.experiment.contrasts import ALL
from form_invariance.experiment.neuron_sets import CIRCUIT

SETS = [("circuit", -1), ("best_in_s", -1), ("best_in_c", -1)]
SETS += [(kind + of, draw) for kind in CONTROLS for of in ("", CONTROL_OF + OWN_BEST) for draw in range(3)]


def lost_answers(rng, operators=("+", "-", "*"), problems=60):
    """Circuits cost their own operator's answers, the best of all formats alike, mostly on the same problems."""
    rows = []
    for size, task in enumerate(operators):
        hard = rng.random(2 * problems) < 0.3 + 0.2 * size
        for name in "sc":
            asked = rng.permutation(int(1.3 * problems))[:problems]
            for operator, (neurons, draw) in product(operators, SETS):
                chance = 0.9 if operator == task and not neurons.startswith("random") else 0.1
                lost = (hard[asked] & (rng.random(problems) < chance)).astype(int)
                cell = name, operator, 10, task, neurons, draw, -1
                rows += [(*cell, *one) for one in zip(asked.tolist(), lost.tolist(), strict=True)]
    names = ["format", "operator", "k", "task", "neurons", "seed", "a", "b", "lost"]
    table = pd.DataFrame(rows, columns=names)
    # Neurons that cost an answer keep it where they are kept alone.
    kept = table.assign(intervention="keep_only", lost=1 - table["lost"])
    both = pd.concat([table.assign(intervention="knockout"), kept])
    return both.assign(probability=0.6 * both["lost"])


def test_unchanged_tables_have_the_answers_that_they_were_made_with(monkeypatch):
    """So a trial that finds nothing would find something."""
    unchanged = {null: (lambda lost, rng: lost, *rest) for null, (_, *rest) in nulls.NULLS.items()}
    monkeypatch.setattr(nulls, "NULLS", unchanged)
    monkeypatch.setattr(nulls, "TRIALS", 1)
    trials = [*nulls.specificity_trials(lost_answers(np.random.default_rng(6)), 200, 0)]
    assert {one["null"] for one in trials} == {*unchanged}
    said = {(one["question"], one["verdict"]) for one in trials}
    # No task copies.
    assert said == {("exchange", "yes"), ("specific", "yes"), ("computed", "undefined")}


def test_of_equal_circuits_none_is_stronger():
    """On the prompts that choose it, the strongest of several would be stronger than the own by chance."""
    rng, operators = np.random.default_rng(0), ["+", "-", "*"]
    sets = pd.MultiIndex.from_tuples([(operator, 5, CIRCUIT, -1) for operator in operators], names=nulls.SET)
    problems = pd.MultiIndex.from_tuples([(1, place) for place in range(41)], names=["a", "b"])
    cells = product(map(str, range(40)), operators)
    damage = {cell: pd.DataFrame(rng.normal(size=(3, 41)), sets, problems) for cell in cells}
    table = nulls.contrasts_of(damage, "knockout", "accuracy", operators, 2, 0)
    found = table[(table["contrast"] == OTHER_CIRCUITS) & (table["format"] != ALL)]["difference"]
    assert len(found) == len(damage)
    assert abs(found.mean()) < 2 * found.std() / len(found) ** 0.5


@pytest.mark.nightly
def test_the_table_of_false_verdicts(tmp_path):
    """The table of docs/results.md: the demo's model whose formats share neurons."""
    folder, how = tmp_path / "embedded-shared", {"resamples": 2000, "seed": 0}
    command = [sys.executable, "-m", "snakemake", f"{folder}/shared/verdicts.parquet", "--cores", "2"]
    configured = ["--configfile", "config/demo.yaml", "--config", f"results={tmp_path}"]
    subprocess.run([*command, *configured], cwd=ROOT, check=True)

    def read(pattern):
        return pd.concat(map(pd.read_parquet, sorted(folder.glob(pattern))), ignore_index=True)

    tables = ("interventions", "interventions_prompts", "dataset")
    cells = {
        path.parts[-3:-1]: [pd.read_parquet(path.with_name(f"{name}.parquet")) for name in tables]
        for path in sorted(folder.glob("*/*/interventions.parquet"))
    }
    trials = [*nulls.ablation_trials(cells, **how)]
    trials += nulls.transfer_trials(read("transfer/*/*.parquet"), read("shared/*/transfer_pairs.parquet"), **how)
    trials += nulls.specificity_trials(read("shared/specificity_prompts.parquet"), **how)
    table = nulls.rates(trials)
    print(table.round(2).to_string())
    known = {*nulls.NULLS, *(null for *_, null in nulls.DONORS.values())}
    assert {*table.index.get_level_values("null")} == known | {"a control is the circuit", "permuted donors"}
    assert (table[["yes", "no"]] <= 0.06).all(axis=None)
