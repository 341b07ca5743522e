"""One registry of neuron sets: a control that is added to it reaches tables, figures and pages."""

import ast
import base64
import json
import re
import shutil
import subprocess
import sys

import pytest
import test_explainer
from example_tables import filled
from stub_checkout import ROOT

from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.neuron_sets import CIRCUIT, CONTROLS, KINDS
from form_invariance.tables.files import write_table

NAME = "random_opposite"
LABEL, TITLE, MEANING = "random, opposite effect", "others of opposite effect", "matched by minus the mean effect"
COLOUR = "#123456"
ENTRY = f"    {NAME!r}: Kind({LABEL!r}, {TITLE!r}, {MEANING!r}, {COLOUR!r}, matched_by='opposite'),\n"
DRAW = """
import json
import numpy as np
from form_invariance.stages.controls import Draws
from form_invariance.stages.interventions.compute import neuron_sets
from form_invariance.stages.interventions.table import INTERVENTIONS
members = np.arange(60).reshape(2, 30) % 10 == 0
values = np.random.default_rng(0).random((2, 30))
sets = neuron_sets({3: members}, values, values, "addition", Draws(2, 3, 0))
print(json.dumps({
    "drawn": [one.label["neurons"] for one in sets],
    "sizes": [one.members.sum(1).tolist() for one in sets],
    "meaning": INTERVENTIONS.columns["neurons"].meaning,
}))
"""


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Runs Python in a copy of the source that has the control; nothing else of it is edited."""
    source = tmp_path_factory.mktemp("added") / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    stages = source / "form_invariance/stages"
    for path, before, after in (
        (stages / "neuron_sets.py", '    "random_any": Kind', f'{ENTRY}    "random_any": Kind'),
        (stages / "interventions/compute.py", '"effect": effects', '"effect": effects, "opposite": -effects'),
    ):
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))

    def run(code, *words):
        code = f"import sys; sys.path.insert(0, {str(source)!r})\n{code}"
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_it_is_drawn_and_described(added):
    found = json.loads(added(DRAW))
    kinds = ["random"] * 2 + ["random_variance"] * 3 + ["random_effect"] * 3 + [NAME] * 3 + ["random_any"] * 2
    assert found["drawn"] == ["circuit", *kinds]
    assert found["sizes"] == [[3, 3]] * len(found["drawn"])
    assert f"{NAME} ({MEANING})" in found["meaning"]


def test_figures_and_the_explained_page_show_it(added, tmp_path, monkeypatch):
    rows = [
        {"intervention": "knockout", "means": "format", "positions": "all", "neurons": kind, "k": k, "seed": seed}
        | {"n_neurons": 4, "faithfulness_mean": 0.5, "accuracy": 0.25 * seed, "probability": 0.125}
        for kind in ("circuit", "random", NAME)
        for k in (2, 5)
        for seed in ([-1] if kind == "circuit" else [0, 1])
    ]
    write_table(filled(INTERVENTIONS, rows), tmp_path / "x.parquet", INTERVENTIONS, {})
    words = ["figure", "interventions", "knockout", "--title", "m", "--k", "10"]
    words += ["--tables", f"interventions/word/addition={tmp_path}/x.parquet", "--output", str(tmp_path / "x.svg")]
    left = {how: {**kinds, NAME: 0.25} for how, kinds in test_explainer.LEFT.items()}
    monkeypatch.setattr(test_explainer, "LEFT", left)
    page = ["explainer", *test_explainer.write_run(tmp_path), "--output", str(tmp_path / "page.html")]
    added("from form_invariance.cli import main; sys.exit(main())", *words, "+", *page)
    svg = (tmp_path / "x.svg").read_text()
    assert LABEL in svg
    assert COLOUR in svg
    page = (tmp_path / "page.html").read_text()
    assert TITLE in test_explainer.plain(page)
    pictures = [base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([^\"]+)", page)]
    assert any("of opposite effect" in picture for picture in pictures)


def test_a_table_with_a_kind_that_has_no_entry_is_shown_by_its_name(tmp_path, monkeypatch):
    left = {how: {**kinds, "removed_kind": 0.25} for how, kinds in test_explainer.LEFT.items()}
    monkeypatch.setattr(test_explainer, "LEFT", left)
    page = test_explainer.explain(tmp_path)
    pictures = [base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([^\"]+)", page)]
    assert any("removed_kind" in picture for picture in pictures)


def test_kinds_can_be_told_apart():
    for part in ("label", "title", "meaning"):
        texts = [getattr(kind, part) for kind in KINDS.values()]
        assert all(texts)
        assert len({*texts}) == len(texts)
    assert len({(kind.colour, kind.dashes) for kind in KINDS.values()}) == len(KINDS)


def test_no_other_module_lists_the_controls():
    own = ROOT / "src/form_invariance/stages/neuron_sets.py"
    names = {*CONTROLS} - {"random"}
    titles = {text for kind in CONTROLS.values() for text in (kind.label, kind.title)}
    for path in sorted((ROOT / "src").rglob("*.py")):
        constants = {
            node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
        }
        assert path == own or not constants & (names | titles), path
    assert CIRCUIT in KINDS
