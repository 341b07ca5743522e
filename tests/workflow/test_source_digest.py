"""What re-runs after a change of the source: the definitions that a command reaches, and nothing else."""

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from replayed_run import written
from stub_checkout import ROOT
from unequal_run import unequal

from form_invariance.stage_folders import stage_folders
from form_invariance.workflow import source_digest
from form_invariance.workflow.source_digest import reached, starts_of

PACKAGE = ROOT / "src/form_invariance"
CALLERS = [("form_invariance.cli", "*"), ("form_invariance.__main__", "*")]
"""What runs a command; it changes no result."""


def modules():
    """The package's files by the names of their modules."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def more_of(words):
    """The modules that a command line makes a command import by name."""
    if words[0] == "figure":
        return [f"{stage_folders()[words[1]].parent.name}.{words[1]}.figure"]
    stages = words[words.index("--stages") + 1 : words.index("--tables")] if words[0] == "answers" else []
    return [f"{stage_folders()[stage].parent.name}.{stage}.answer" for stage in stages]


def pruned(to, references):
    """A copy of the package in which all other definitions are None."""
    shutil.copytree(PACKAGE, to / "form_invariance")
    kept = {}
    for module, name in references:
        kept.setdefault(module, set()).add(name)
    for module, path in modules():
        body = []
        for statement in ast.parse(path.read_text()).body:
            names = source_digest._bound(statement)
            imports = isinstance(statement, ast.Import | ast.ImportFrom)
            if imports or not names or names & kept.get(module, set()) or module == "form_invariance":
                body.append(ast.unparse(statement))
            else:
                body += [f"{name} = None" for name in names]
        body.insert(1, "from __future__ import annotations")
        (to / "form_invariance" / path.relative_to(PACKAGE)).write_text("\n".join(body))


def checked(folder, words, place):
    """Run a command with the definitions that it reaches alone; what it writes is what the run wrote."""
    callers = [reference for module, _ in CALLERS for reference in source_digest._resolved(module, "*")]
    pruned(place / "src", reached([*starts_of(words[0], *more_of(words)), *callers]))
    shutil.copytree(folder, place / "run", ignore=shutil.ignore_patterns("src"))
    environment = {**os.environ, "PYTHONPATH": str(place / "src")}
    line = [sys.executable, "-m", "form_invariance", *words]
    done = subprocess.run(line, cwd=place / "run", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words[0], done.stderr[-2000:])
    with contextlib.chdir(folder):
        before = {path: path.read_bytes() for path in written(words, folder)}
    for path, content in before.items():
        assert (place / "run" / path.relative_to(folder)).read_bytes() == content, path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unequal(tmp_path_factory)


FEW = ("patching", "specificity", "answers")


def calls_by_command(folder):
    calls = json.loads((folder / "calls.json").read_text())
    return {" ".join(words[: 2 if words[0] in ("heuristics", "figure") else 1]): words for words in calls}


@pytest.mark.slow
@pytest.mark.parametrize("command", FEW)
def test_a_command_needs_only_what_it_reaches(folder, tmp_path, command):
    checked(folder, calls_by_command(folder)[command], tmp_path)


@pytest.mark.nightly
def test_every_command_needs_only_what_it_reaches(folder, tmp_path):
    calls = calls_by_command(folder)
    assert len(calls) > 30
    for number, words in enumerate(calls.values()):
        checked(folder, words, tmp_path / str(number))
        shutil.rmtree(tmp_path / str(number))
