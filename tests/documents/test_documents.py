"""What the documents say holds: links lead somewhere, commands are tried, examples read the demo's results."""

import copy
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from configurations import SHIPPED
from kept import NUMBER
from PIL import Image, ImageChops
from snakemake.utils import update_config
from stub_checkout import ROOT, pending, snakemake

from conftest import at_night
from demo_pictures import FIGURES, PAGES, PICTURES, open_part
from form_invariance.cli import command_line
from form_invariance.experiment.contrasts.entries import CONTRASTS
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.model.files import PACKAGED
from form_invariance.model.loading import load
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.templates import render
from form_invariance.stages.heuristics import null as nulls

pytestmark = pytest.mark.slow

NAMES = ("README.md", "config/README.md", "results/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
DOCUMENTS = [*(ROOT / name for name in NAMES), *sorted(ROOT.glob("docs/*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS}
DEMO = ROOT / "results/embedded-separate/transfer/division/word_to_code.parquet"
needs_the_demo = pytest.mark.skipif(not DEMO.exists(), reason="needs the demo's results (make demo)")
# A file that the user writes; placeholders in paths.
NOT_HERE = ("config/cluster.yaml",)
PLACEHOLDER = re.compile(r"\b(STAGE|NAME|MODEL)\b|(?<=_)STAGE\b")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


YAML = blocks(TEXTS["docs/extend.md"], "yaml")


def commands():
    """Every line of every block of commands; Snakemake's are planned, so `-n` makes no difference."""
    lines = (
        line.split("  #")[0].split(" # ")[0].strip().removesuffix(" -n")
        for text in TEXTS.values()
        for block in blocks(text, "bash")
        for line in block.replace("\\\n", " ").splitlines()
    )
    return sorted({line for line in lines if line})


def paths(text):
    """The words in backticks that begin with a folder of the repository, without blocks."""
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    words = {word for span in spans for word in span.split()}
    return sorted(word for word in words if word.startswith(("src/", "tests/", "config/", "workflow/", "docs/")))


@pytest.mark.parametrize("name", TEXTS)
def test_paths_and_links_lead_somewhere(name):
    for path in paths(TEXTS[name]):
        assert path in NOT_HERE or any(ROOT.glob(PLACEHOLDER.sub("*", path))), path
    for target in re.findall(r"\]\(([^)]+)\)", TEXTS[name]):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / name).parent / path if path else ROOT / name
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text().lower(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in headings], target


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_documents_is_valid(finished, tmp_path, command):
    name, *words = shlex.split(command.removeprefix("PYTHONPATH=tools "))
    if name == "snakemake":
        # This replaces the model that `make` fetches; both tokenizers split numbers.
        shutil.copytree(PACKAGED / "embedded-digits", finished / "models/qwen2.5-coder-0.5b")
        (finished / "my.yaml").write_text("seed: 1\n")
        # A run's first jobs are planned, in a home without profiles.
        dry = () if {"--unlock", "--touch"} & set(words) else ("-n",)
        target = [] if any(word.startswith("results/") for word in words) else ["--until", "census"]
        status, out = snakemake(finished, *target, *words, *dry, home=tmp_path)
        (finished / "my.yaml").unlink()
        shutil.rmtree(finished / "models")
        assert status == 0, out
    elif words[:2] == ["-m", "form_invariance"]:
        # An unknown or missing option is an error.
        command_line(words[2:]).parse_args(words[2:], exit_on_error=False, print_error=False)
    elif words[:1] == ["-m"]:
        assert (ROOT / "tools" / words[1] / "__main__.py").exists()
    elif name == "pytest" or (words[:1] and words[0].endswith(".py")):
        assert (ROOT / words[0]).exists()
    elif name == "python":
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
    elif name == "make":
        subprocess.run(["make", "-n", *words], cwd=ROOT, check=True, capture_output=True)
    elif name == "hf":
        # Unknown options are refused before help is given.
        hf = Path(sys.executable).with_name("hf")
        subprocess.run([hf, *words, "--help"], check=True, capture_output=True)
    else:
        assert name in ("nvidia-smi", "df", "du", "source", "cp")
        subprocess.run(["bash", "-n", "-c", command], check=True)


def test_pickled_weights_are_converted(tiny_folder, tmp_path, monkeypatch):
    (block,) = blocks(TEXTS["docs/troubleshooting.md"], "python")
    (tmp_path / "OLD").symlink_to(tiny_folder)
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    before, after = load(tiny_folder), load(tmp_path / "NEW")
    assert torch.equal(before.layers[1].down, after.layers[1].down)
    load_tokenizer(tmp_path / "NEW")


@pytest.mark.parametrize(
    ("block", "cells", "rules"),
    [(YAML[1], 4, "heuristics agreement family_knockout browser"), (YAML[0], 2, "browser")],
    ids=["digits", "table"],
)
def test_configurations_of_other_tasks_are_planned(checkout, block, cells, rules):
    """They replace all operators and formats, and the model splits numbers into digits."""
    shutil.copy(ROOT / "config/tables/plural.csv", checkout / "my_plurals.csv")
    own = {"models": {"mine": {"source": "embedded:embedded-digits"}}, "k": [10, 50], "k_shown": 10}
    (checkout / "my.yaml").write_text(yaml.safe_dump({**own, **yaml.safe_load(block)}))
    jobs = pending(checkout, "--configfile", "my.yaml")
    assert jobs["census"] == jobs["patching"] == cells
    assert "probe" in jobs
    assert "paper_tables" not in jobs
    # A table has no operands that rules could speak of; the browser shows its neurons without maps.
    assert {"heuristics", "agreement", "family_knockout", "browser"} & set(jobs) == set(rules.split())


@pytest.mark.parametrize(("block", "cells"), at_night([(YAML[2], 30), (YAML[3], 21), (YAML[4], 23)]))
def test_configurations_are_planned(checkout, block, cells):
    """Each block is merged into the default configuration with one model."""
    one = copy.deepcopy(SHIPPED | {"models": {"mine": {"source": "embedded:embedded-shared"}}})
    update_config(one, yaml.safe_load(block))
    (checkout / "my.yaml").write_text(yaml.safe_dump(one, sort_keys=False))
    jobs = pending(checkout, "--until", "patching", "--configfile", "my.yaml")
    assert jobs["census"] == jobs["patching"] == cells


def test_the_guides_formats_write_latex_and_json():
    formats = {name: entry["templates"] for name, entry in yaml.safe_load(YAML[2])["formats"].items()}
    assert set(formats) == {"spanish", "latex", "json"}
    prompts = {name: {of: render(text, 226, 68) for of, text in own.items()} for name, own in formats.items()}
    assert [prompts["latex"][of] for of in ("addition", "division")] == [
        comment.strip() for comment in re.findall(r"# (\$.*)$", YAML[2], re.MULTILINE)
    ]
    for prompt in prompts["json"].values():
        assert [*json.loads(prompt + "3}").values()] == [226, 68, 3]


def test_the_configuration_of_a_users_model_is_planned(checkout):
    (block,) = blocks(TEXTS["docs/start.md"], "yaml")
    (checkout / "my.yaml").write_text(block)
    assert pending(checkout, "--until", "patching", "--configfile", "my.yaml")["census"] == 18


def test_maps_from_anywhere_are_scored(monkeypatch):
    section = TEXTS["docs/library.md"].split("## Score your own activation maps")[1]
    (code,) = blocks(section, r"\w+")
    # Fewer random maps than a user gets, for speed: the guide does not say how many there are.
    monkeypatch.setattr(nulls, "SCALE_MAPS", 300)
    monkeypatch.setattr(nulls, "MAPS", 1200)
    found = {}
    exec(code, found)
    (label,) = found["scores"][found["scores"]["label"]].itertuples()
    assert f"labels neuron {label.neuron} with `{label.heuristic}`" in section


@needs_the_demo
@pytest.mark.parametrize("name", ["results/README.md", "docs/results.md"])
def test_examples_read_the_demos_tables(name):
    code = "\n".join(blocks(TEXTS[name], "python"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@needs_the_demo
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_the_demo_is_what_it_draws(name):
    """Another processor may move a line by a part of a pixel; a changed digit is a larger difference."""
    before, now = (
        Image.open(path).convert("L") for path in (PICTURES / f"{name}.png", ROOT / "results" / FIGURES[name])
    )
    assert before.size == now.size
    blocks = ImageChops.difference(before, now).reduce(12)
    assert blocks.getextrema()[1] < 16, "make pictures"


def alike(before, now):
    """The same words, and numbers that are equal up to another processor's rounding."""
    one, other = (np.array(NUMBER.findall(text.replace("−", "-")), float) for text in (before, now))
    return len(one) == len(other) and (abs(one - other) <= 0.0015 + 0.03 * abs(other)).all()


@needs_the_demo
@pytest.mark.parametrize("name", PAGES)
def test_a_picture_of_the_demos_pages_says_what_they_say(name, chromium):
    width, height, parts = PAGES[name]
    tab, said = chromium.new_page(), {}
    for part in parts:
        for text, _ in open_part(tab, part, width, height):
            said.setdefault(NUMBER.sub("", text), []).append(text)
    tab.close()
    seen = json.loads(Image.open(PICTURES / f"{name}.png").text["Description"])
    assert len(seen) > 20
    for text in seen:
        now = said.get(NUMBER.sub("", text), [])
        assert any(alike(text, one) for one in now) or "form-invariance " in text, f"{text}: make pictures"


DEMO_ROWS = {
    "same": ["jaccard", "jaccard beyond operator"],
    "sufficient": ["accuracy", "probability"],
    "necessary": ["accuracy", "probability", "probability at the last token"],
    **{question: ["rate"] for question in ("repaired", "beyond_the_answer", "imposed", "interchange")},
    "exchange": ["probability", "probability kept"],
    "shared": ["probability"],
    "specific": ["probability", "probability beyond control"],
    "served": ["rate"],
}
"""The rows of the demo's table in docs/results.md: metrics by question."""


@needs_the_demo
def test_the_demos_numbers_are_those_of_its_tables(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    whole = TEXTS["docs/results.md"].split("## The demo", 1)[1]
    exec(blocks(whole, "python")[0], names)
    verdicts = names["pooled"].set_index(["model", "question", "metric"])
    separate = verdicts.loc["embedded-separate"]["verdict"]
    decided = [("same", "jaccard"), ("same", "jaccard beyond operator"), ("exchange", "probability kept")]
    assert {separate.pop(key) for key in [*decided, ("meet", "layers")]} == {"no"}
    assert separate.pop(("served", "rate")) == "yes"
    assert set(separate.drop("exchange", level="question")) == {"undefined"}
    section = whole.split("```", 1)[0]
    table = [line for line in section.splitlines() if line.startswith("| ")][1:]
    keys = [(question, metric) for question, metrics in DEMO_ROWS.items() for metric in metrics]
    for key, line in zip(keys, table, strict=True):
        row = verdicts.loc["embedded-shared"].loc[key]
        shown = [row["value"], *([row["control_value"]] if row["control"] != "none" else [])]
        margin = QUESTIONS[key[0]].parts[key[1]].margin
        shown += [margin + row[name] for name in ("difference", "low", "high")]
        cells = line.split("|")[2:-1]
        found = [float(n.replace("−", "-")) for n in re.findall(r"−?\d\.\d\d", " ".join(cells))]
        assert found == [round(value, 2) + 0.0 for value in shown if not np.isnan(value)], line
        assert cells[-1].strip() == row["verdict"], line
        pairs = [int(n) for n in re.findall(r"\(n = (\d+)\)", line)]
        assert pairs == ([row["prompts"]] if key[1] == "rate" else []), line


def test_the_method_has_the_words_of_every_contrast_and_question():
    text = " ".join(TEXTS["docs/method.md"].split())
    for name, entry in CONTRASTS.items():
        assert f"- `{name}`: {entry.compared}" in text
    for name, question in QUESTIONS.items():
        assert f"- *{name}*: {question.compared}" in text
