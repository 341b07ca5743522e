"""The page about the paper names all of the paper, and only what the repository has."""

import os
import re
from pathlib import Path

import pytest
from stub_checkout import ROOT

PAPER = Path(os.environ.get("PAPER_TEX", Path(__file__).parents[3] / "shared/paper/paper.tex"))
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/paper.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| in the paper")
]
LABEL = re.compile(r"`((?:sec|fig|tab|eq|app):[\w:]+)`")


def words(column):
    return {word for row in ROWS for word in re.findall(r"`([^`]+)`", row[column])}


def test_the_stages_tables_and_figures_exist():
    assert all((ROOT / "src/form_invariance/stages" / stage).is_dir() for stage in words(2))
    tree = re.sub(r"\{donor\}_to_\{target\}", "DONOR_to_TARGET", (ROOT / "results/README.md").read_text())
    named = set(re.findall(r"[\w.]+", tree))
    assert words(3) | words(4) <= named, (words(3) | words(4)) - named


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_every_label_of_the_paper_has_a_row():
    labels = set(re.findall(r"\\label\{([^}]+)\}", PAPER.read_text()))
    assert len(labels) > 40
    assert {label for row in ROWS for label in LABEL.findall(row[0])} == labels
