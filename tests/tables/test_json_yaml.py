"""JSON, YAML and models, cut, flipped or made to harm: a right reading, or a sentence that names the file."""

import re
import shutil
from itertools import islice

import numpy as np
import pytest
from damages import damages
from hostile_values import refusal
from hugging_face import INDEX, SHARDS, write_shards
from safetensors.torch import load_file

from form_invariance.errors import UserError
from form_invariance.model import loading as models
from form_invariance.model import tokenizers
from form_invariance.workflow import config_check


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("seed: " + "[" * 500 + "]" * 500, "recursion"),
        ("seed: 1\nk: [10]\nseed: 2\n", "'seed' appears twice.*line 3"),
        ("seed: 1\nheuristic_threshold: .nan\n", r"\.nan is not a finite number.*line 2"),
        ("a: !!python/object/apply:os.system ['touch pwned']", "not valid YAML"),
        ("- a list", "must contain keys and values"),
        ("__use_yte__: true\nseed: ?1 + 1\n", "__use_yte__"),
    ],
)
def test_ambiguous_configurations_are_refused(tmp_path, text, reason):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"^{path} .*{reason}"):
        config_check.load(path)


@pytest.mark.parametrize(("number", "value"), [("010", 8), ("-1:30", -90), ("1_0", 10), ("1:30.5", 90.5)])
def test_numbers_that_yaml_reads_in_another_way_than_people_are_refused(tmp_path, number, value):
    path = tmp_path / "my.yaml"
    said = re.escape(f"YAML reads {number} as the number {value}; write {value}, or put text in quotes")
    for line in (f"k: [10, {number}]", f"{number}: x"):
        path.write_text(f"bootstrap: 10\n{line}\n")
        with pytest.raises(UserError, match=rf"^{path} .*{said}.* line 2"):
            config_check.load(path)


def test_plain_numbers_and_texts_that_look_like_numbers_are_read(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("a: [0, -7, +7, .5, 1., 2.5e-3, 010.5]\nb: ['010', \"1:30\", 1_0 apples, 1e3, 08]\n'010': 1\n")
    texts = ["010", "1:30", "1_0 apples", "1e3", "08"]
    assert config_check.load(path) == {"a": [0, -7, 7, 0.5, 1.0, 0.0025, 10.5], "b": texts, "010": 1}


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json", INDEX, SHARDS[0]])
def test_a_damaged_model_is_read_or_refused(tiny_folder, tmp_path, name):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    write_shards(load_file(folder / "model.safetensors"), folder)
    (folder / "model.safetensors").unlink()
    content, said = (folder / name).read_bytes(), 0
    for bad in islice(damages(content, np.random.default_rng(2)), 18):
        (folder / name).write_bytes(bad)
        _, text = refusal(lambda: (models.load(folder), tokenizers.load_tokenizer(folder)))
        assert not text or str(folder) in text
        said += bool(text)
    assert said >= 4
