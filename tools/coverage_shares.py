"""Print the shares of lines and branches that the tests ran, from `coverage json` on standard input."""

import json
import sys

LEAST = 95

totals = json.load(sys.stdin)["totals"]
lines, branches = totals["percent_statements_covered"], totals["percent_branches_covered"]
print(
    f"Lines: {lines:.1f} % of {totals['num_statements']}. Branches: {branches:.1f} % of {totals['num_branches']}."
)
if lines < LEAST:
    sys.exit(f"error: the tests run {lines:.1f} % of the lines of src; it must be at least {LEAST} %")
