"""What re-runs after a change of the source: the definitions that a command reaches, and nothing else."""

import ast
import contextlib
import os
import random
import shutil
import subprocess
import sys

import pytest
from altered_source import altered
from package_imports import modules
from replayed_run import written
from stub_checkout import ROOT
from unequal_run import calls_by_command, unequal

from form_invariance.cli import command_modules
from form_invariance.stage_folders import stage_folders
from form_invariance.workflow import definitions, source_digest
from form_invariance.workflow.source_digest import reached, starts_of

PACKAGE = ROOT / "src/form_invariance"
CALLERS = [("form_invariance.cli", "*"), ("form_invariance.__main__", "*")]
"""What runs a command: it changes no result, but what is said of a file's ancestors."""


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
            names = definitions.bound(statement)
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


@pytest.mark.slow
@pytest.mark.parametrize("command", FEW)
def test_a_command_needs_only_what_it_reaches(folder, tmp_path, command):
    checked(folder, calls_by_command(folder)[command], tmp_path)


@pytest.mark.nightly
def test_every_command_needs_only_what_it_reaches(folder, tmp_path):
    calls = calls_by_command(folder, "heuristics", "figure")
    assert len(calls) > 30
    for number, words in enumerate(calls.values()):
        checked(folder, words, tmp_path / str(number))
        shutil.rmtree(tmp_path / str(number))


DYNAMIC = {"__init_subclass__", "singledispatch", "import_module", "__import__", "exec", "sys.modules"}
DYNAMIC |= {"get_docstring", "get_type_hints", "__doc__"}
"""Names by which code or its text is used without its own name."""
WITHOUT_NAMES = {
    "form_invariance.__getattr__": "the library, which no command uses",
    "cli.functions_of": "which function runs; a digest starts at it",
    "cli._of_one_run": "types of a command's options, which count in its module",
    "cli.command_line": "texts of help",
    "cli._help_of": "texts of help",
    "drawing.figure_command.figure_of": "the rule names the module of a figure",
    "report.answers_command.answers": "the rule names the modules of the answers",
    "explainer.command.explainer": "the rule names the modules of the pictures",
    "workflow.job_costs.OPERATIONS": "the plan, which no rule makes",
    "experiment.answers.method_of": "the rule adds the text",
    "workflow.job_server._listen": "imports early what jobs import themselves",
}


def test_what_names_cannot_follow_is_listed():
    found = set()
    for module, path in modules():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert not node.level, path
                assert "*" not in {name.name for name in node.names}, path
            if isinstance(node, ast.Import):
                own = [name for name in node.names if name.name.startswith("form_invariance.")]
                assert all(name.asname for name in own), path
        for statement in tree.body:
            nodes = [*ast.walk(statement)] if not isinstance(statement, ast.Import | ast.ImportFrom) else []
            used = {node.id for node in nodes if isinstance(node, ast.Name)}
            for node in nodes:
                if isinstance(node, ast.Attribute):
                    used |= {node.attr, ast.unparse(node)}
                elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("eval", "globals"):
                    used.add("exec")
            if used & DYNAMIC:
                short = module.removeprefix("form_invariance.")
                found |= {f"{short}.{name}" for name in definitions.bound(statement) or {""}}
    assert found == {*WITHOUT_NAMES}


def forget():
    for function in (source_digest.file_of, source_digest._next, source_digest._data, source_digest._of_data):
        function.cache_clear()
    definitions.read.cache_clear()


@pytest.fixture
def digest_of(tmp_path, monkeypatch):
    """The digest of what `start` reaches in a package of some files, by name."""

    def digest_of(files):
        for name, text in {"empty.py": "", **files}.items():
            (tmp_path / name).write_text(text)
        forget()
        return source_digest.source_digest("run", "main:start")

    monkeypatch.setattr(source_digest, "_ROOT", tmp_path)
    monkeypatch.setattr(source_digest, "command_modules", lambda: {"run": "form_invariance.empty"})
    yield digest_of
    forget()


FILES = {
    "main.py": """
from form_invariance import tools
from form_invariance.errors import UserError
from form_invariance.other import unused
from form_invariance.tools import LIMIT, helper

def start(x: int) -> int:
    "Say it."
    if x > LIMIT:
        raise UserError("too large")
    return tools.double(helper(x))

def stop():
    return unused()
""",
    "errors.py": "class UserError(Exception):\n    pass\n",
    "tools.py": """
LIMIT = 3
OTHER = 4
def helper(x): return x
def double(x): return inner(x)
def inner(x): return 2 * x
""",
    "other.py": "def unused():\n    return 1\n",
}
BY_VALUE = FILES["main.py"].replace("tools.double(", "vars(tools)['double'](")
OTHER_ERROR = FILES["main.py"].replace("UserError(", "KeyError(")
OUTSIDE = FILES["main.py"].replace("tools.double(", "rounded(") + "\nfrom math import floor as rounded\n"
CHOSEN = (
    FILES["main.py"] + "\nif LIMIT:\n    from math import floor as helper\nelse:\n    SIZE = [x for x in (2, 3)]\n"
)


@pytest.mark.parametrize(
    ("main", "file", "old", "new", "counts"),
    [
        (None, "tools.py", "LIMIT = 3", "LIMIT = 5", True),
        (None, "tools.py", "OTHER = 4", "OTHER = 5", False),
        (BY_VALUE, "tools.py", "OTHER = 4", "OTHER = 5", True),  # a module as a value
        (None, "tools.py", "2 * x", "3 * x", True),  # through another definition
        (None, "tools.py", "helper(x): return x", "helper(x): return x + 1", True),
        (None, "tools.py", "OTHER", "print()\nOTHER", True),  # what an import runs
        (None, "other.py", "return 1", "return 2", False),
        (None, "main.py", "too large", "too big", False),
        (None, "main.py", "Say it", "Says it", False),
        (None, "main.py", "x: int", "x: float", False),
        (None, "main.py", "x > LIMIT", "x >= LIMIT", True),
        (None, "main.py", "return unused()", "return unused() + 1", False),
        (None, "errors.py", "pass", "code = 2", False),
        (OTHER_ERROR, "main.py", "too large", "too big", True),  # may be caught
        (OTHER_ERROR, "main.py", "KeyError(", "ValueError(", True),
        (OUTSIDE, "main.py", "import floor", "import ceil", True),
        (None, "main.py", "import LIMIT, helper", "import OTHER as LIMIT, helper", True),
        (None, "main.py", "other import unused", "tools import unused", False),
        (CHOSEN, "main.py", "import floor", "import ceil", True),  # a block of the module
        (CHOSEN, "main.py", "(2, 3)", "(2, 4)", True),
    ],
)
def test_what_counts(digest_of, main, file, old, new, counts):
    files = {**FILES, "main.py": main or FILES["main.py"]}
    assert old in files[file]
    before = digest_of(files)
    assert (digest_of({**files, file: files[file].replace(old, new)}) != before) == counts


@pytest.mark.parametrize("number", [12, pytest.param(300, marks=pytest.mark.nightly)])
def test_a_changed_definition_changes_the_commands_that_reach_it(number, tmp_path, monkeypatch):
    commands = command_modules()
    reaching = {command: reached(starts_of(command)) for command in commands}
    before = {command: source_digest.source_digest(command) for command in commands}
    names = [
        (module, name, path)
        for module, path in modules()
        if module != "form_invariance"
        for name in definitions.read(path).definitions
        if name
    ]
    for module, name, path in random.Random(number).sample(names, number):
        (tmp_path / path.name).write_text(altered(path.read_text(), name))
        other = definitions.read.__wrapped__(tmp_path / path.name)
        with monkeypatch.context() as patch:
            patch.setattr(source_digest, "read", lambda file: other if file == path else definitions.read(file))
            source_digest._next.cache_clear()
            changed = {command for command in commands if source_digest.source_digest(command) != before[command]}
        expected = {command for command, found in reaching.items() if (module, name) in found}
        assert changed == expected, (module, name)
    source_digest._next.cache_clear()


def test_the_digest_of_the_package_is_the_same_in_every_process():
    code = "from form_invariance.workflow.source_digest import package_digest; print(package_digest())"
    seeds = [{**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(PACKAGE.parent)} for seed in (1, 2)]
    digests = {subprocess.check_output([sys.executable, "-c", code], env=environment) for environment in seeds}
    assert len(digests) == 1
