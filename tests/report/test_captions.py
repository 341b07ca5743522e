"""The captions that the report gets are those of Snakemake's report, with every expression filled in."""

import json
import re

import pytest
from stub_checkout import make_checkout, snakemake

pytestmark = pytest.mark.slow


def test_no_expression_is_left(finished):
    calls = [json.loads(line) for line in (finished / "calls.jsonl").read_text().splitlines()]
    words = next(call for call in calls if call[0] == "report")
    start = words.index("--captions") + 1
    end = next(place for place, word in enumerate(words) if place > start and word.startswith("--"))
    captions = dict(word.split("=", 1) for word in words[start:end])
    assert {"overlap", "keep_only"} <= set(captions)
    assert [text for text in captions.values() if re.search(r"\{\{|\{%|\}\}|snakemake", text)] == []


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
