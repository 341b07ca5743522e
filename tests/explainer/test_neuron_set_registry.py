"""One registry of neuron sets: no other module lists the controls."""

import ast

from stub_checkout import ROOT

from form_invariance.experiment.neuron_sets import CIRCUIT, CONTROLS, KINDS


def test_kinds_can_be_told_apart():
    for part in ("label", "title", "meaning"):
        texts = [getattr(kind, part) for kind in KINDS.values()]
        assert all(texts)
        assert len({*texts}) == len(texts)
    assert len({(kind.colour, kind.dashes) for kind in KINDS.values()}) == len(KINDS)


def test_no_other_module_lists_the_controls():
    own = ROOT / "src/form_invariance/experiment/neuron_sets.py"
    names = {*CONTROLS} - {"random"}
    titles = {text for kind in CONTROLS.values() for text in (kind.label, kind.title)}
    for path in sorted((ROOT / "src").rglob("*.py")):
        constants = {
            node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
        }
        assert path == own or not constants & (names | titles), path
    assert CIRCUIT in KINDS
