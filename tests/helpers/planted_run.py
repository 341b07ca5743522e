"""Runs of the two planted models, from the census to the report, which all files of the tests read."""

import json
import shutil

import pandas as pd
import planted_models
import pytest
from configurations import SHIPPED
from planted_models import PLANTED, TEMPLATES
from replayed_run import calls_of, replay, written
from stub_checkout import once

from form_invariance.stages.heuristics import null as nulls

MODEL, OPERATOR = "planted", "addition"
CONFIG = SHIPPED | {
    "operators": {OPERATOR: planted_models.EXPRESSION},
    "models": {MODEL: {"source": "model", "device": "cpu"}},
    "formats": {
        name: {"templates": {OPERATOR: text}, "variants": {OPERATOR: [text]}} for name, text in TEMPLATES.items()
    },
    "variant_operators": [OPERATOR],
    "operands": vars(planted_models.LIMITS),
    "specificity_tasks": {"copying": {"expression": "a", "templates": {"symbolic": "{a}={a}="}}},
    **{"k": [PLANTED], "k_shown": PLANTED, "census_pairs": 1000},
    **{"train_prompts": 40, "eval_prompts": 30, "corrupt_seeds": 1, "probe_prompts": 600},
    **{"mean_cache_prompts": 300, "transfer_pairs": 80, "random_seeds": 4, "matched_seeds": 4},
    **{"heuristic_max_operand": 30, "bootstrap": 50, "permutations": 50, "seed": 3, "heuristic_threshold": 0.5},
}
LEAK = 0.05
"""What a neuron that carries nothing writes; its effect is then a fiftieth of a planted one's, and no rounding."""
SIZE = ("--k", PLANTED)
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
ONCE = ("heuristic-null", "figure", "report", "browser", "paper-tables")
"""Commands that run for the first model alone; the second run starts with a copy of their files."""


class Run:
    """The files of a run of a planted model, and the commands that make them in this folder."""

    def __init__(self, place):
        self.place, self.results = place, place / "results"
        self.folder = self.results / MODEL
        self.on_model = ("--model", place / "model", "--device", "cpu")
        self.calls = json.loads((place / "calls.json").read_text())

    def cell(self, name, table):
        return self.folder / name / OPERATOR / table

    def shared(self, table):
        return self.cell("shared", table)

    def table(self, name):
        """A table of every format."""
        files = [self.cell(one, f"{name}.parquet") for one in TEMPLATES]
        return pd.concat(map(pd.read_parquet, files), ignore_index=True)

    def commands(self, name):
        """The command lines of one command."""
        return [words for words in self.calls if words[0] == name]


def run(place, calls, first=None, shared=True, **options):
    """Run command lines on a planted model in a new folder, into which the files of a first run are copied."""
    planted_models.write_model(place / "model", shared, 0, LEAK)
    (place / "calls.json").write_text(json.dumps(calls))
    if first is not None:
        shutil.copytree(first.results, place / "results")
    # The tests of the figures draw all of them, so one is enough here.
    others = [words for words in calls if words[0] == "figure" and words[2] != "overlap"]
    for path in [path for words in others for path in written(words, place)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PICTURE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nulls, "SCALE_MAPS", 300)
        patch.setattr(nulls, "MAPS", 1200)
        replay([words for words in calls if words not in others], place, **options)
    return Run(place)


def _plan_and_run(place):
    planned = place / "planned"
    planted_models.write_model(planned / "model", True, seed=0)
    calls = calls_of(planned, CONFIG)
    shutil.rmtree(planned)
    run(place, calls)


def planted(factory):
    """The run of the model whose formats share their neurons."""
    return Run(once(factory, "planted-shared", _plan_and_run))


def separate(factory):
    """The run of the model whose formats share none."""
    first = planted(factory)
    calls = [words for words in first.calls if words[0] not in ONCE]
    return Run(once(factory, "planted-separate", lambda place: run(place, calls, first, shared=False)))
