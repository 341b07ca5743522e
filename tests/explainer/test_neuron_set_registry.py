"""One registry of neuron sets: no other module lists the controls, and a page shows one that it does not know."""

import ast
import base64
import re

import test_explainer
from stub_checkout import ROOT

from form_invariance.stages.neuron_sets import CIRCUIT, CONTROLS, KINDS


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
