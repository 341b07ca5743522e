"""The share of mutants that the tests kill, by module, from mutmut's records; ends with 1 where it is small."""

import json
import sys
from collections import Counter
from pathlib import Path

from mutmut.stats import status_by_exit_code

RECORDS = Path("mutants/src/form_invariance")
LEAST = 0.9


def main() -> int:
    modules, left, low = Counter(), [], []
    killed = Counter()
    for path in sorted(RECORDS.rglob("*.meta")):
        module = str(path.relative_to(RECORDS)).removesuffix(".py.meta")
        for mutant, code in json.loads(path.read_text())["exit_code_by_key"].items():
            status = status_by_exit_code[code]
            modules[module] += 1
            killed[module] += status in ("killed", "timeout")
            if status not in ("killed", "timeout"):
                left.append(f"{mutant}: {status}")
    if not modules:
        print("no mutants are recorded; run make test-mutants", file=sys.stderr)
        return 1
    print("Left:", *left, sep="\n  ")
    rows = [(module, killed[module], modules[module]) for module in modules]
    for module, found, total in [*rows, ("all", killed.total(), modules.total())]:
        print(f"{module:24} {found:5} of {total:5} killed, {found / total:6.1%}")
        if found < LEAST * total:
            low.append(module)
    if low:
        print(f"less than {LEAST:.0%} are killed of: {', '.join(low)}", file=sys.stderr)
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(main())
