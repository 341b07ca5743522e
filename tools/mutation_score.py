"""Print the share of mutants that the tests kill, by module, from mutmut's records; fail if a share is small."""

import json
import sys
from pathlib import Path

import pandas as pd
from mutmut.stats import status_by_exit_code

RECORDS = Path("mutants/src/form_invariance")
LEAST = 0.9

mutants = pd.DataFrame(
    [
        (str(path.relative_to(RECORDS)).removesuffix(".py.meta"), mutant, status_by_exit_code[code])
        for path in sorted(RECORDS.rglob("*.meta"))
        for mutant, code in json.loads(path.read_text())["exit_code_by_key"].items()
    ],
    columns=["module", "mutant", "status"],
)
if not len(mutants):
    sys.exit("no mutants are recorded; run make test-mutants")
killed = mutants["status"].isin(["killed", "timeout"])
print("Left:", *(mutants["mutant"] + ": " + mutants["status"])[~killed], sep="\n  ")
shares = pd.concat([killed.groupby(mutants["module"]).mean(), pd.Series({"all": killed.mean()})])
print(shares.map("{:.1%}".format).to_string())
if len(low := shares[shares < LEAST]):
    sys.exit(f"less than {LEAST:.0%} of the mutants are killed in: {', '.join(low.index)}")
