"""The verdicts' nulls: what is put in the circuit's place, and that true nulls are rarely rejected."""

import subprocess
import sys
from itertools import chain, product

import nulls
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT
from form_invariance.beyond.specificity.damages import KNOCKOUT
from form_invariance.beyond.specificity.verdicts import specific
from form_invariance.experiment.contrasts import overall

KINDS = [kind + of for kind in ("random_variance", "random_effect") for of in ("", "_of_own_best")]
SETS = [("circuit", -1), ("best_in_s", -1), ("best_in_c", -1), *product(KINDS, range(3))]


def lost_answers(rng, operators=("+", "-", "*"), problems=60):
    """A specificity_prompts table of knockouts: circuits cost their own operator's answers, the best of all alike.

    The formats ask most problems in common, and what a problem costs is mostly the same in both.
    """
    rows = []
    for size, task in enumerate(operators):
        hard = rng.random(2 * problems) < 0.3 + 0.2 * size
        for name in "sc":
            asked = rng.permutation(int(1.3 * problems))[:problems]
            for operator in operators:
                for neurons, draw in SETS:
                    chance = 0.9 if operator == task and not neurons.startswith("random") else 0.1
                    costs = hard[asked] & (rng.random(problems) < chance)
                    rows += [
                        (name, operator, 10, task, neurons, draw, -1, place, int(lost))
                        for place, lost in zip(asked.tolist(), costs, strict=True)
                    ]
    names = ["format", "operator", "k", "task", "neurons", "seed", "a", "b", "lost"]
    return pd.DataFrame(rows, columns=names).assign(
        intervention="knockout", probability=lambda table: 0.6 * table["lost"]
    )


def test_circuits_of_the_wrong_operators_are_not_specific():
    operators = ["+", "-", "*"]
    lost = nulls.lost_by_cell(lost_answers(np.random.default_rng(5), operators), KNOCKOUT, "probability")
    for order in (operators, ["-", "*", "+"], ["*", "+", "-"]):
        renamed = dict(zip(operators, order, strict=True))
        changed = {
            cell: rows.rename(index=renamed, level="operator").sort_index(level="operator", sort_remaining=False)
            for cell, rows in lost.items()
        }
        table = specific(nulls.contrasts_of(changed, KNOCKOUT, "probability", operators, 200, 0))
        verdicts = set(overall(table)["verdict"])
        assert verdicts == {"yes"} if order == operators else "yes" not in verdicts


def read(folder, pattern):
    """The tables of a run as one."""
    return pd.concat(map(pd.read_parquet, sorted(folder.glob(pattern))), ignore_index=True)


def false_verdicts(folder, resamples, seed):
    """How often the verdicts on a model say yes or no where the truth is known, from its folder of results."""
    cells = {
        path.parts[-3:-1]: [pd.read_parquet(path.with_name(f"{name}.parquet")) for name in TABLES]
        for path in sorted(folder.glob("*/*/interventions.parquet"))
    }
    transfer = read(folder, "transfer/*/*.parquet")
    pairs = read(folder, "shared/*/transfer_pairs.parquet")
    lost = pd.read_parquet(folder / "shared/specificity_prompts.parquet")
    how = resamples, seed
    trials = nulls.ablation_trials(cells, *how), nulls.transfer_trials(transfer, pairs, *how)
    return nulls.rates(chain(*trials, nulls.specificity_trials(lost, *how)))


TABLES = ("interventions", "interventions_prompts", "dataset")


@pytest.mark.nightly
def test_the_table_of_false_verdicts(tmp_path):
    """The table of docs/results.md: the demo's model whose formats share neurons."""
    given = ["embedded-shared/shared/verdicts.parquet", "--configfile", "config/demo.yaml", "--cores", "2"]
    command = [sys.executable, "-m", "snakemake", f"{tmp_path}/{given[0]}", *given[1:]]
    subprocess.run([*command, "--config", f"results={tmp_path}"], cwd=ROOT, check=True)
    table = false_verdicts(tmp_path / "embedded-shared", resamples=2000, seed=0)
    print(table.round(2).to_string())
    assert (table[["yes", "no"]] <= 0.06).all(axis=None)
