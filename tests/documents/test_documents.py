"""What the documents say holds: links lead somewhere, commands are tried, examples read the demo's results."""

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from stub_checkout import ROOT, snakemake

DOCUMENTS = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    ROOT / "config/README.md",
    ROOT / "results/README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
]
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS}
DEMO = ROOT / "results/report.html"
# Made by `make slurm-profile`; and a name that stands for any.
NOT_HERE = ("config/cluster.yaml", "tests/test_NAME.py")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands():
    """Every line of every block of commands, continued lines joined, without what it says of itself."""
    lines = (
        line.split("  #")[0].split(" # ")[0].strip()
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


def slug(heading):
    """The anchor that a heading has."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", TEXTS)
def test_paths_exist(name):
    missing = [path for path in paths(TEXTS[name]) if not (path in NOT_HERE or any(ROOT.glob(path)))]
    assert not missing


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)]+)\)", TEXTS[name]):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / name).parent / path if path else ROOT / name
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), target


def test_the_citation_has_the_packages_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_every_limit_has_its_test():
    rows = [line for line in TEXTS["docs/limits.md"].splitlines() if line.startswith("|")][2:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)(?: -k (\w+))?`", row)
        assert named, row
        for file, words in named:
            (path,) = ROOT.glob(f"tests/**/{file}")
            assert re.search(rf"^def test_\w*{words}", path.read_text(), re.MULTILINE), (file, words)


@pytest.mark.parametrize("command", commands())
def test_commands(finished, tmp_path, command):
    name, *words = shlex.split(command)
    if name == "snakemake":
        try_snakemake(finished, tmp_path, words)
    elif words[:2] == ["-m", "form_invariance"]:
        parse(words[2:])
    elif name == "python" and words[0].endswith(".py"):
        assert (ROOT / words[0]).exists()
    elif name == "python":
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
    elif name == "make":
        subprocess.run(["make", "-n", *words], cwd=ROOT, check=True, capture_output=True)
    elif name == "pytest":
        assert (ROOT / words[0]).exists()
    elif name == "hf":
        # Unknown options are refused before help is given.
        hf = Path(sys.executable).with_name("hf")
        subprocess.run([hf, *words, "--help"], check=True, capture_output=True)
    else:
        assert name in ("nvidia-smi", "df", "du", "source")
        subprocess.run(["bash", "-n", "-c", command], check=True)


def try_snakemake(checkout, home, words):
    """Plan a run, in a home where `make slurm-profile` has put its link."""
    (home / "snakemake").mkdir(parents=True)
    (home / "snakemake/slurm").symlink_to(checkout / "workflow/profiles/slurm")
    (checkout / "my.yaml").write_text("seed: 1\n")
    dry = () if {"--unlock", "--touch"} & set(words) else ("-n",)
    status, out = snakemake(checkout, *words, *dry, home=home)
    (checkout / "my.yaml").unlink()
    assert status == 0, out


def parse(words):
    """Let a command's parser read its words: an unknown option, or none that must be, is an error."""
    parser = argparse.ArgumentParser()
    import_module(f"form_invariance.commands.{words[0].replace('-', '_')}").add_arguments(parser)
    parser.parse_args(words[1:])


@pytest.mark.skipif(not DEMO.exists(), reason="needs the demo's results (make demo)")
@pytest.mark.parametrize("name", ["README.md", "results/README.md"])
def test_examples_read_the_demos_tables(name):
    code = "\n".join(blocks(TEXTS[name], "python"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
