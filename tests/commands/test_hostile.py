"""Hostile input: whatever a configuration contains, the answer is one sentence or a run that harms nothing."""

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from configurations import SCHEMA, SMALL, places, with_value
from hostile_values import FUZZ, TEXTS, VALUES, refusal
from hypothesis import example, given
from hypothesis import strategies as st

from form_invariance.errors import in_one_sentence
from form_invariance.model import loading as models
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.operands import evaluate
from form_invariance.workflow import config_check

PLACES = st.sampled_from(sorted(places(SMALL)))


def accepted(config):
    """Whether a configuration passes; if not, the refusal must be one line."""
    return not refusal(config_check.check, config, SCHEMA)[1]


@FUZZ
@given(PLACES, VALUES)
def test_any_value_anywhere_is_accepted_or_one_sentence(path, value):
    accepted(with_value(SMALL, path, value))


@FUZZ
@given(st.sampled_from([("models", "m"), ("formats", "code"), ("operators", "addition")]), TEXTS)
def test_an_accepted_name_stays_in_its_folder_and_means_itself(path, name):
    """A name is part of paths and of wildcards."""
    section, own = path
    others = {key: value for key, value in SMALL[section].items() if key != own}
    if accepted({**SMALL, section: {**others, name: SMALL[section][own]}}):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*", name), name
        assert (Path("/results") / name / "x").resolve() == Path(f"/results/{name}/x")


@FUZZ
@given(st.one_of(TEXTS, st.text(alphabet="ab+-*/%()0123456789 minmaxabs,_.", max_size=30)))
@example("(" * 5000 + "a" + ")" * 5000)
@example("-" * 20000 + "a")
@example("a" + "*a" * 3000)
@example("__import__('os').system('touch x')")
@example("().__class__")
@example("a if b else 0")
@example("9" * 5000)
@example("9" * 19 + " + a")
def test_any_expression_is_computed_or_one_sentence(text):
    found, text = refusal(evaluate, text, np.array([7, 12]), np.array([3, 0]))
    if not text:
        answer, defined = found
        assert answer.shape == defined.shape == (2,)
        assert answer.dtype == np.int64


def test_no_pickle_and_no_code_of_a_model_is_run(packaged_copy):
    folder = packaged_copy
    raw = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    (folder / "config.json").write_text(json.dumps({**raw, "auto_map": auto}))
    (folder / "evil.py").write_text("import pathlib; pathlib.Path(__file__).with_name('pwned').touch()")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(folder / "pwned")))
    models.load(folder)
    load_tokenizer(folder)
    (folder / "model.safetensors").unlink()
    assert "pickled .bin weights are never read" in refusal(models.load, folder)[1]
    assert not (folder / "pwned").exists()
    pickle.loads((folder / "pytorch_model.bin").read_bytes())
    assert (folder / "pwned").exists()


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_an_interrupt_is_no_mistake_of_the_user():
    with pytest.raises(KeyboardInterrupt), in_one_sentence("a file cannot be read"):
        raise KeyboardInterrupt
