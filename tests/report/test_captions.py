"""The captions that the report gets are those of Snakemake's report, with every expression filled in."""

import json
import re

import pytest
from stub_checkout import ROOT, make_checkout, snakemake

pytestmark = pytest.mark.slow


def captions_of(words):
    """The captions among the words of the command `report`."""
    start = words.index("--captions") + 1
    end = next(place for place, word in enumerate(words) if place > start and word.startswith("--"))
    return dict(word.split("=", 1) for word in words[start:end])


def test_no_expression_is_left(finished):
    calls = [json.loads(line) for line in (finished / "calls.jsonl").read_text().splitlines()]
    captions = captions_of(next(call for call in calls if call[0] == "report"))
    assert {"overlap", "keep_only"} <= set(captions)
    assert [text for text in captions.values() if re.search(r"\{\{|\{%|\}\}|snakemake", text)] == []
    assert captions["probe"].startswith("Linear probes of the answer in the model:")


def test_captions_of_other_things_than_figures_are_left_out(finished):
    calls = [json.loads(line) for line in (finished / "calls.jsonl").read_text().splitlines()]
    captions = captions_of(next(call for call in calls if call[0] == "report"))
    files = {path.stem for path in (ROOT / "workflow/report").glob("*.rst")}
    assert files - set(captions) >= {"figure", "workflow"}


def test_any_expression_of_jinja_is_filled_in(tmp_path):
    checkout = make_checkout(tmp_path / "checkout")
    (checkout / "workflow/report/overlap.rst").write_text(
        '{# a comment #}{% for h in snakemake.config["k"] %}k{{ h }} {% endfor %}'
        "of {{ snakemake.wildcards.get('model', 'all') | upper }}{{ snakemake.params.unknown.part }}, é"
    )
    (checkout / "my.yaml").write_text("k: [50, 20]\nk_shown: 50\n")
    status, out = snakemake(checkout, "-n", "-p", "--configfile", "config/test.yaml", "my.yaml")
    assert status == 0, out
    assert "overlap=k50 k20 of THE MODEL, é" in out
