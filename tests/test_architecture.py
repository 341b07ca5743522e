"""The house: which folder may import which, and in which order stages may import each other."""

import ast
import re

from package_imports import imports_of, modules
from stub_checkout import ROOT

from form_invariance.stage_folders import ROOMS, stage_folders
from form_invariance.workflow.source_digest import file_of

PACKAGE = ROOT / "src/form_invariance"
FLOORS = (
    *("errors randomness", "stage_folders", "user_files", "json_yaml statistics tables problems", "model drawing"),
    *("embedded", "experiment", "stages", "beyond", "verdicts", "page", "report browser explainer paper"),
    *("cli", "workflow", "scouting", "library", "__main__"),
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}


def imported(module):
    """The modules that a module imports, without the packages that contain them."""
    return {name for name in imports_of(module) if file_of(name).name != "__init__.py"}


def test_imports_point_down():
    for module, _ in modules():
        own = module.partition(".")[2].partition(".")[0]
        for name in imported(module) if own else ():
            room = name.split(".")[1]
            assert room == own or FLOOR[room] < FLOOR[own] or room == "__init__", (module, name)


def stage_of(module):
    parts = module.split(".")
    return parts[2] if len(parts) > 3 and parts[1] in ROOMS else None


def test_a_stage_imports_earlier_stages_alone():
    text = (ROOT / "workflow/Snakefile").read_text()
    included = re.findall(r'^include: "rules/(\w+)\.smk"$', text, re.MULTILINE)
    # One rule runs attribution and patching.
    included.insert(included.index("patching"), "attribution")
    order = [name for name in included if name in stage_folders()]
    for module, _ in modules():
        for name in imported(module) if stage_of(module) else ():
            if other := stage_of(name):
                assert order.index(other) <= order.index(stage_of(module)), (module, name)


def test_what_the_paper_does_not_have_can_be_deleted():
    """The browser alone reads tables of `beyond`; other pages, verdicts and costs find what a stage declares."""
    for module, _ in modules():
        for name in imported(module):
            if name.split(".")[1] == "beyond" and module.split(".")[1] != "browser":
                assert stage_of(module) == stage_of(name), (module, name)


def test_pages_escape_whatever_they_show():
    for path in (ROOT / "src").rglob("*.html"):
        assert not re.search(r"\|\s*safe|autoescape", path.read_text()), path
    for path in (ROOT / "src").rglob("*.js"):
        assert not re.search("innerHTML|outerHTML|AdjacentHTML", path.read_text()), path
    by_hand = {PACKAGE / f"{name}.py" for name in ("page/make", "browser/page", "report/page", "report/verdicts")}
    assert {path for path in PACKAGE.rglob("*.py") if "Markup" in path.read_text()} == by_hand


def test_files_are_written_by_the_function_that_replaces_them_whole():
    """Others write or remove what takes a file's place, what only this process reads, or what may be lost."""
    direct = re.compile(
        r"\.write_(text|bytes)\(|\bopen\([^)\n]*['\"][wax]|unlink|rmtree|"
        r"(to_parquet|save_file|save_pretrained|json\.dump|savefig)\("
    )
    paths = (path for path in PACKAGE.rglob("*.py") if direct.search(path.read_text()))
    files = {path.relative_to(PACKAGE).as_posix() for path in paths}
    replacing = {"tables/files.py", "drawing/style.py", "model/gguf.py", "workflow/job_usage.py"}
    assert files == replacing | {"scouting/scout_command.py", "workflow/job_server.py"}


def test_files_are_short():
    for folder, kind, most in ((PACKAGE, "*.py", 300), (ROOT / "workflow/rules", "*.smk", 80)):
        for path in folder.rglob(kind):
            assert len(path.read_text().splitlines()) <= most, path


VAGUE = {"one", "own", "some", "found", "given", "place", "every", "known", "wanted", "chosen", "asked"}
"""Words that name no thing: data are called what they are."""
ASKED = {"browser/command.py", "explainer/command.py"}
"""Their option --asked."""


def named(tree):
    """The names that a module gives to data and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def test_names_say_what_a_value_is():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        vague = {word for word in named(ast.parse(path.read_text())) if word.strip("_") in VAGUE}
        assert vague <= ({"asked"} if name in ASKED else set()), f"{name}: {vague}"
