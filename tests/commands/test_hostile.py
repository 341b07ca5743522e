"""Hostile input: whatever a configuration contains, the answer is one sentence or a run that harms nothing."""

import copy
import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from configurations import SCHEMA, SMALL, places, with_value
from hostile_values import FUZZ, TEXTS, VALUES, refusal
from hypothesis import example, given
from hypothesis import strategies as st

from form_invariance.model import files as model_files
from form_invariance.model import loading as models
from form_invariance.model.files import PACKAGED
from form_invariance.model.folders import weight_files
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.operands import evaluate
from form_invariance.workflow import config_check, job_sizes

PLACES = st.sampled_from(sorted(places(SMALL)))


def renamed(config, path, name):
    config = copy.deepcopy(config)
    section = config
    for key in path[:-1]:
        section = section[key]
    section[name] = section.pop(path[-1])
    return config


def accepted(config):
    """Whether a configuration passes; if not, the refusal must be one line."""
    return not refusal(config_check.check, config, SCHEMA)[1]


@FUZZ
@given(PLACES, VALUES)
def test_any_value_anywhere(path, value):
    accepted(with_value(SMALL, path, value))


@FUZZ
@given(st.sampled_from([("models", "m"), ("formats", "code"), ("operators", "addition")]), TEXTS)
def test_any_name(path, name):
    """A name is part of paths and of wildcards: what passes stays in its folder and means itself."""
    if accepted(renamed(SMALL, path, name)):
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
def test_any_expression(text):
    found, text = refusal(evaluate, text, np.array([7, 12]), np.array([3, 0]))
    if not text:
        answer, defined = found
        assert answer.shape == defined.shape == (2,)
        assert answer.dtype == np.int64


@pytest.mark.parametrize(
    ("expression", "answers"),
    [("min(a, b, 5)", [3, 0]), ("max(a, b, 9, a)", [9, 12]), ("abs(b - a)", [4, 12]), ("min(a)", [7, 12])],
)
def test_functions_leave_the_operands_as_they_are(expression, answers):
    a, b = np.array([7, 12]), np.array([3, 0])
    assert evaluate(expression, a, b)[0].tolist() == answers
    assert (a.tolist(), b.tolist()) == ([7, 12], [3, 0])
    assert "cannot be read" in refusal(evaluate, "abs(a, b)", a, b)[1]


def test_numbers_that_are_too_large_are_not_defined():
    a, b = np.array([999, 2]), np.array([3, 1])
    answer, defined = evaluate("*".join("a" * 9), a, b)
    assert defined.tolist() == [False, True]
    assert answer[1] == 2**9


def model_folder(folder, **changes):
    """The files of a model of the package, with some keys of config.json changed; `...` deletes one."""
    folder.mkdir()
    for path in (PACKAGED / "embedded-shared").iterdir():
        (folder / path.name).symlink_to(path)
    raw = json.loads((folder / "config.json").read_text())
    raw = {key: value for key, value in {**raw, **changes}.items() if value is not ...}
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


RAW = json.loads((PACKAGED / "embedded-shared/config.json").read_text())
MODEL_TYPES = ["llama", "mistral", "qwen2", "phi3", "olmo2", "gemma2", "gemma3_text", "gpt_neox", "gpt2", "bert"]
NUMBERS = st.sampled_from([0, -1, 2**40, 10**400, 1e308, float("inf"), float("nan"), 0.5, "6", "six"])
MORE_KEYS = ("sliding_window", "head_dim", "rope_parameters", "rope_scaling", "layer_types")
FOUND = st.one_of(VALUES, NUMBERS, st.just(...))


@FUZZ
@given(st.sampled_from([*RAW, *MORE_KEYS]), FOUND, st.sampled_from(MODEL_TYPES))
def test_any_config_json(tmp_path_factory, key, value, family):
    folder = model_folder(tmp_path_factory.mktemp("any") / "model", **{"model_type": family, key: value})
    checked = copy.deepcopy(SMALL)
    checked["models"]["m"]["source"] = str(folder)
    if accepted(checked):
        refusal(models.load, folder)
        job_sizes.parameters(str(folder))
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["..", "", "\0", None])
def test_an_index_leads_to_no_file_outside_the_model(tmp_path, name):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
    said = refusal(weight_files, folder)[1]
    assert ", which its index names, is missing" in said or "has no weight_map" in said


def test_weights_that_are_none(tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(b"\x80\x04K\x01.")
    assert "model.safetensors cannot be read as safetensors: " in refusal(models.load, folder)[1]


def test_no_pickle_and_no_code_of_a_model_is_run(tmp_path):
    """Neither weights that are a pickle, nor code that config.json asks for."""
    touch = "import pathlib; pathlib.Path(__file__).with_name('pwned').touch()"
    auto = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    folder = model_folder(tmp_path / "model", auto_map=auto)
    (folder / "evil.py").write_text(touch)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(folder / "pwned")))
    models.load(folder)
    load_tokenizer(folder)
    (folder / "model.safetensors").unlink()
    assert "pickled .bin weights are never read" in refusal(models.load, folder)[1]
    assert not (folder / "pwned").exists()
    pickle.loads((folder / "pytorch_model.bin").read_bytes())
    assert (folder / "pwned").exists()


class Evil:
    """What touches a file when it is read as a pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["", "../models/embedded-shared", "embedded-shared/"])
def test_a_model_of_the_package_is_one_of_them(name):
    said = refusal(model_files.resolve, f"embedded:{name}")[1]
    assert "does not come with the package; known are embedded:" in said


def test_a_link_that_leads_nowhere(tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "notes.txt").symlink_to("nowhere")
    checked = copy.deepcopy(SMALL)
    checked["models"]["m"]["source"] = str(folder)
    assert accepted(checked)
