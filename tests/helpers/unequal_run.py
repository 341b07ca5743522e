"""A run to its pages whose prompts differ in length: digits of operands of one and two digits, and a table."""

import json

import pandas as pd
import yaml
from configurations import ROOT, SHIPPED
from replayed_run import calls_of, replay
from stub_checkout import once

MODEL = "embedded-digits"
SUM = "Jack has {} apples and gets {} more. Now he has "
UNEQUAL = {
    **SHIPPED,
    **yaml.safe_load((ROOT / "config/digits.yaml").read_text()),
    "results": "results",
    "operators": {"sum_units": {"expression": "a + b", "digit": 1}, "pairs": {"table": "pairs.csv"}},
    "operands": {"operand_min": 5, "operand_max": 99, "answer_min": 10, "answer_max": 99},
    "formats": {
        "symbolic": {"templates": {"sum_units": "{a}+{b}=", "pairs": "{first}+{second}="}},
        "word": {"templates": {"sum_units": SUM.format("{a}", "{b}"), "pairs": SUM.format("{first}", "{second}")}},
    },
    "variant_operators": [],
    **{"census_pairs": 150, "train_prompts": 6, "eval_prompts": 6, "corrupt_seeds": 2, "candidates": 40},
    **{"k": [15, 30], "k_shown": 30, "random_seeds": 1, "matched_seeds": 1, "mean_cache_prompts": 20},
    **{"transfer_pairs": 6, "bootstrap": 20, "seed": 7, "membership": "top_k", "center_logits": False},
    **{"permutations": 20, "probe_prompts": 40},
}


def _make(folder):
    folder.mkdir()
    pairs = pd.DataFrame([(a, b, a + b) for a in range(3, 60, 4) for b in (21, 30, 38)])
    pairs.to_csv(folder / "pairs.csv", header=["first", "second", "answer"], index=False)
    calls = calls_of(folder, UNEQUAL)
    replay(calls, folder)
    (folder / "calls.json").write_text(json.dumps(calls))


def unequal(factory):
    """The folder of the run."""
    return once(factory, "unequal-run", _make)


def calls_by_command(folder, *several):
    """A command line of each command of the run; of `several`, one for each first argument."""
    calls = json.loads((folder / "calls.json").read_text())
    return {" ".join(words[: 2 if words[0] in several else 1]): words for words in calls}
