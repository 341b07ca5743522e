"""The captions that the report gets are those of Snakemake's report, with every expression filled in."""

import json
import re

import pytest

pytestmark = pytest.mark.slow


def test_no_expression_is_left(finished):
    calls = [json.loads(line) for line in (finished / "calls.jsonl").read_text().splitlines()]
    words = next(call for call in calls if call[0] == "report")
    captions = json.loads(words[words.index("--captions") + 1])
    assert {"overlap", "keep_only"} <= set(captions)
    assert all(captions.values())
    assert [text for text in captions.values() if re.search(r"\{\{|\{%|\}\}|snakemake", text)] == []
    assert captions["probe"].startswith("Linear probes of the answer in the model:")
