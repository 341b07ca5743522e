"""Checkouts in which the commands only write their outputs, to test the graph without the science."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import snakemake_forks
import yaml
from filelock import FileLock

ROOT = Path(__file__).parents[2]
NASTY = 'it\'s "$(touch pwned)" `touch pwned` \\ $HOME; *\n{a}+{b}='


def make_checkout(folder: Path, *, stub: bool = True) -> Path:
    """A copy of what the graph needs, with its byte code; with `stub` the commands only write their outputs."""
    skip = shutil.ignore_patterns("*.egg-info")
    for name in ("workflow", "config", "src", "envs"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    for name in ("Snakefile", "profiles", "slurm"):
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    if stub:
        shutil.copy(ROOT / "tests/helpers/stub_package.py", folder / "src/form_invariance/__main__.py")
    return folder


def environment(checkout: Path, home: Path | None = None) -> dict[str, str]:
    """What makes a command use a checkout's own source, leave no byte code there, and find profiles in `home`."""
    env = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    if home is not None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env.update(XDG_CONFIG_HOME=str(home), PATH=path)
    return env


def snakemake(checkout: Path, *words: str, folder: Path | None = None, home: Path | None = None):
    """Exit status and all output of Snakemake with a checkout's source, in it or in `folder`."""
    # A run ends with its last timer (workflow/profiles/default): here after one second instead of five.
    words = (*words, "--max-jobs-per-timespan=500/1s")
    return snakemake_forks.run(words, folder or checkout, environment(checkout, home))


def done(checkout: Path, *words: str, folder: Path | None = None) -> str:
    """All output of Snakemake, which must succeed."""
    status, out = snakemake(checkout, *words, folder=folder)
    assert status == 0, out
    return out


def noted_calls(checkout: Path) -> list[list[str]]:
    """The command lines that a checkout's stubs were called with."""
    return [json.loads(line) for line in (checkout / "calls.jsonl").read_text().splitlines()]


def listed_jobs(out: str) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    """The rule, the directives and the wildcards of each job that a dry run lists."""
    parts, found = re.split(r"^(?:local)?rule (\w+):$", out, flags=re.MULTILINE)[1:], []
    for rule, text in zip(parts[::2], parts[1::2], strict=True):
        fields = dict(re.findall(r"^ *([\w ]+): (.*)$", text, re.MULTILINE))
        named = dict(item.split("=") for item in fields.get("wildcards", "").split(", ") if item)
        found.append((rule, fields, named))
    return found


def job_counts(out: str) -> dict[str, int]:
    """How many jobs of each rule the output of a dry run lists."""
    if "Nothing to be done" in out:
        return {}
    stats = out.split("Job stats:")[1].split("total")[0]
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", stats, re.MULTILINE)}


def pending(checkout: Path, *words: str) -> dict[str, int]:
    """How many jobs of each rule a dry run lists."""
    return job_counts(done(checkout, "-n", *words))


def once(factory: pytest.TempPathFactory, name: str, make) -> Path:
    """A folder that is made once for all processes of the tests, which only read it."""
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            unfinished = shared.with_name(f"{name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(shared)
    return shared


def finished_copy(factory: pytest.TempPathFactory, name: str) -> Path:
    """A copy, with its records, of a checkout whose small grid has run."""
    shared = once(factory, "finished-run", _finish)
    return Path(shutil.copytree(shared, factory.mktemp(name) / "checkout", symlinks=True))


def _finish(folder: Path) -> None:
    """Run the small grid with a template that is full of what a shell would act on."""
    checkout = make_checkout(folder)
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    config |= yaml.safe_load((ROOT / "config/test.yaml").read_text())
    config["models"]["embedded-shared"]["dtype"] = "tf32"
    config["formats"]["symbolic"]["templates"]["addition"] = NASTY
    for own in config["formats"].values():
        own["variants"] = {operator: variants[:1] for operator, variants in own["variants"].items()}
    # A changed configuration is checked with every operand.
    config["operands"] |= {"operand_max": 99, "answer_max": 99}
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    done(checkout)
