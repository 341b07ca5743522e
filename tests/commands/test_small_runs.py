"""Runs with other settings than by default: digits; other partners and layers, and limits of one operator."""

import kept
import pandas as pd
import yaml
from configurations import ROOT, SHIPPED
from replayed_run import calls_of, replay
from unequal_run import MODEL, UNEQUAL

from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.stages.dataset.table import CORRUPT
from form_invariance.tables.files import provenance_of, read_table

DIGITS = yaml.safe_load((ROOT / "config/digits.yaml").read_text())
WORD = "Jack has {a} apples and gets 0 more. Now he has "
COPYING = {"expression": "a", "digit": 1, "templates": {"symbolic": "{a}+0=", "word": WORD}}
CONFIG = {
    **UNEQUAL,
    "operators": {name: DIGITS["operators"][name] for name in ("sum_tens", "sum_units")},
    "operands": DIGITS["operands"],
    "formats": {name: DIGITS["formats"][name] for name in ("symbolic", "word")},
    "specificity_tasks": {"copying": COPYING},
    **{"k": [30], "random_seeds": 2, "matched_seeds": 2},
}


def test_a_run_of_digits_ends_in_verdicts(tmp_path):
    replay(calls_of(tmp_path, CONFIG, f"results/{MODEL}/shared/verdicts.parquet"), tmp_path)
    folder = tmp_path / "results" / MODEL
    assert set(pd.read_parquet(folder / "shared/verdicts.parquet")["question"]) == set(QUESTIONS)
    corrupt = read_table(folder / "symbolic/sum_units/corrupt.parquet", CORRUPT)
    assert set(corrupt["partner_operator"]) == {"sum_units"}
    for operator, asked in CONFIG["operators"].items():
        assert provenance_of(folder / f"word/{operator}/census.parquet")["digit"] == asked["digit"]
    kept.check("digits", kept.of_files(tmp_path / "results"))


RARE = {
    **SHIPPED,
    "models": {"rare": {"source": "embedded:embedded-shared", "readout": "full"}},
    "operators": {"addition": "a + b", "subtraction": {"expression": "a - b", "operands": {"operand_max": 40}}},
    "formats": {name: SHIPPED["formats"][name] for name in ("symbolic", "word")},
    "operands": {"operand_min": 2, "operand_max": 60, "answer_min": 2, "answer_max": 90},
    **{"corrupt": "across_operators", "late_from": 4, "variant_operators": ["subtraction"]},
    **{"k": [15, 40], "k_shown": 15, "random_seeds": 2, "matched_seeds": 3, "mean_cache_prompts": 30},
    **{"census_pairs": 200, "train_prompts": 8, "eval_prompts": 7, "corrupt_seeds": 2, "candidates": 100},
    **{"transfer_pairs": 9, "bootstrap": 20, "seed": 11, "precision_prompts": 0},
}


def test_a_run_with_rare_settings_makes_what_it_made(tmp_path):
    targets = ("shared/verdicts", "shared/promoted_tokens", "word/subtraction/neuron_effects")
    replay(calls_of(tmp_path, RARE, *(f"results/rare/{target}.parquet" for target in targets)), tmp_path)
    kept.check("rare", kept.of_files(tmp_path / "results"))
