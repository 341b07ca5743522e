"""What the guides say is run: configurations are planned, examples read the demo's results where these are."""

import re
import shutil

import pandas as pd
import pytest
import yaml
from configurations import SHIPPED
from nights import at_night
from stub_checkout import ROOT, make_checkout, pending

from form_invariance.stages.heuristics import null as nulls

pytestmark = pytest.mark.slow

GUIDE, START = ((ROOT / f"docs/{name}.md").read_text() for name in ("extend", "start"))
YAML = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


def merged(base, more):
    """`base` with the keys of `more` added or replaced."""
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    return base | {key: merged(base.get(key), value) for key, value in more.items()}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("guides") / "checkout")


@pytest.mark.parametrize(
    ("block", "cells", "rules"),
    [(YAML[1], 6, "heuristics agreement family_knockout browser"), (YAML[0], 2, "browser")],
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


@pytest.mark.parametrize(("block", "cells"), at_night([(YAML[2], 22), (YAML[3], 21), (YAML[4], 24)]))
def test_configurations_are_planned(checkout, block, cells):
    """Of the default configuration with one model, into which a block is written."""
    one = SHIPPED | {"models": {"mine": {"source": "embedded:embedded-shared"}}}
    (checkout / "my.yaml").write_text(yaml.safe_dump(merged(one, yaml.safe_load(block)), sort_keys=False))
    jobs = pending(checkout, "--until", "patching", "--configfile", "my.yaml")
    assert jobs["census"] == jobs["patching"] == cells


def test_the_configuration_of_a_users_model_is_planned(checkout):
    (block,) = re.findall(r"```yaml\n(.*?)```", START, re.DOTALL)
    (checkout / "my.yaml").write_text(block)
    assert pending(checkout, "--until", "patching", "--configfile", "my.yaml")["census"] == 18


def test_maps_from_anywhere_are_scored(monkeypatch):
    section = (ROOT / "docs/library.md").read_text().split("## Score your own activation maps")[1]
    (code,) = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    # Fewer random maps than a user gets, for speed: the guide does not say how many there are.
    monkeypatch.setattr(nulls, "SCALE_MAPS", 300)
    monkeypatch.setattr(nulls, "MAPS", 1200)
    found: dict[str, pd.DataFrame] = {}
    exec(code, found)
    (label,) = found["scores"][found["scores"]["label"]].itertuples()
    assert f"labels neuron {label.neuron} with `{label.heuristic}`" in section
