"""What the paper does not have can be deleted: the workflow and the types do without each of these folders."""

import re
import shutil
import subprocess
import sys

import pytest
from stub_checkout import ROOT, done, make_checkout

BEYOND = "src/form_invariance/beyond"
ROOMS = sorted(path.parent.name for path in (ROOT / BEYOND).glob("*/compute.py"))
READER = {"neuron_effects": "src/form_invariance/browser"}
"""The browser shows what this folder measures, and nothing else reads these tables: both are deleted together."""


def without(room, folder):
    """Make a checkout without a folder of `beyond`, its reader and their commands' rules; return these rules."""
    checkout = make_checkout(folder, stub=False)
    folders = [checkout / name for name in (f"{BEYOND}/{room}", READER.get(room)) if name]
    commands = {
        (path.parent.name if path.stem == "command" else path.stem.removesuffix("_command")).replace("_", "-")
        for source in folders
        for path in source.glob("*command.py")
    }
    for source in folders:
        shutil.rmtree(source)
    snakefile, rules = checkout / "workflow/Snakefile", []
    for path in (checkout / "workflow/rules").glob("*.smk"):
        if commands & set(re.findall(r"python -m form_invariance ([\w-]+)", path.read_text())):
            path.unlink()
            snakefile.write_text(snakefile.read_text().replace(f'include: "rules/{path.name}"\n', ""))
            rules.append(path.stem)
    return rules


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_the_workflow_does_without_a_folder_of_beyond(room, tmp_path):
    rules = without(room, tmp_path)
    assert rules
    out = done(tmp_path, "--dry-run", "--configfile", "config/demo.yaml")
    assert "rule report:" in out
    assert not any(f"rule {rule}:" in out for rule in rules)


@pytest.mark.nightly
@pytest.mark.parametrize("room", ROOMS)
def test_types_do_without_a_folder_of_beyond(room, tmp_path):
    without(room, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    words = [sys.executable, "-m", "mypy", "src/form_invariance"]
    typed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert typed.returncode == 0, typed.stdout
