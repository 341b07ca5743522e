"""The wheel has every file that the source reads, and its commands run where there is no source."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from stub_checkout import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "built", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", ".", *options], cwd=folder, check=True)
    (built,) = (folder / "built").iterdir()
    return built


def test_every_file_of_the_source_is_in_it(wheel):
    paths = [path for path in (ROOT / "src").rglob("*") if path.is_file() and ".egg-info" not in str(path)]
    files = {str(path.relative_to(ROOT / "src")) for path in paths if path.suffix != ".pyc"}
    assert {Path(name).suffix for name in files} >= {".py", ".html", ".css", ".js", ".csv", ".safetensors"}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == files


WITHOUT_EXTRAS = """
import os, sys
from form_invariance.cli import main
assert sys.modules["form_invariance"].__file__.startswith(os.getcwd())
for name in ("jinja2", "matplotlib", "seaborn", "snakemake", "transformer_lens", "gguf"):
    sys.modules[name] = None
import pandas as pd
from form_invariance import exact_effects, keep_only, load_model, make_prompts, mean_activations
model = load_model("embedded:embedded-shared", device="cpu")
prompts = make_prompts(model, "{a}+{b}=", pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]}))
effects = exact_effects(model, prompts, prompts.iloc[::-1], pd.DataFrame({"layer": [4], "neuron": [7]}))
assert len(keep_only(model, prompts, effects, mean_activations(model, prompts))) == 2
sys.exit(0 if main("figure overlap overlap --tables overlap=x --title m --k 1 --output x.svg".split()) == 2 else 1)
"""


def test_the_library_needs_no_extra_and_a_command_names_what_is_missing(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    words, env = [sys.executable, "-c", WITHOUT_EXTRAS], {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (said,) = done.stderr.splitlines()[-1:]
    assert "matplotlib" in said
    assert said.endswith("; install form-invariance with its extra [workflow]")
