"""Which definitions changed when a job runs again because of its code.

Snakemake records each job's digest of code. A run keeps the digests of the definitions in it, so that a later dry
run can name the definitions that changed.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.json_yaml import read_json
from form_invariance.tables.files import write_text
from form_invariance.workflow.source_digest import MADE

_KEPT = Path(".snakemake/form_invariance_code.json")
_RUNS = 20
_SHOWN = 5
_CODE = re.compile(r"'([0-9a-f]{16})'")
SAID = "code: "
"""Start of the lines that name changed definitions."""


def note() -> None:
    """Keep, for each digest of code in this run, the digests of its definitions."""
    codes = sorted(MADE)
    run = {"codes": codes, "definitions": {name: part for code in codes for name, part in MADE[code].items()}}
    before = [old for old in _runs() if old != run]
    write_text(_KEPT, json.dumps({"runs": [run, *before[: _RUNS - 1]]}))


def _runs() -> list[Any]:
    """The kept runs, the last one first; none if the file is broken, because the next run writes it anew."""
    with suppress(UserError, KeyError):
        return read_json(_KEPT)["runs"] if _KEPT.exists() else []
    return []


def say(workflow: Any) -> None:
    """Print at the end of a dry run of Snakemake, for each rule whose code changed, which definitions did."""
    dag = getattr(workflow, "dag", None)
    if dag is None or not workflow.dryrun:
        return
    changed, runs = defaultdict(set), _runs()
    for job in dag.needrun_jobs(exclude_finished=False):
        if values := dag.reason(job).params_changed:
            for name in _changed(runs, _codes(values.only_old), _codes(values.only_new)):
                changed[name].add(job.rule.name)
    rules = defaultdict(list)
    for name, its_rules in changed.items():
        rules[", ".join(sorted(its_rules))].append(name)
    for changed_rules, names in rules.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        print(f"{SAID}{changed_rules}: {', '.join(sorted(names)[:_SHOWN])}{more}", file=sys.stderr)


def _codes(values: Iterable[str]) -> list[str]:
    return [match[1] for value in values if (match := _CODE.fullmatch(value))]


def _changed(runs: list[Any], before: list[str], now: list[str]) -> Iterator[str]:
    """The definitions that differ between a job's code now and the last run that had its former code."""
    if len(before) == 1 and len(now) == 1:
        kept = next((run["definitions"] for run in runs if before[0] in run["codes"]), None)
        if kept is not None:
            yield from (name for name, part in MADE[now[0]].items() if kept.get(name) != part)
