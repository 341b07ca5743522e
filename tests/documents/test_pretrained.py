"""The numbers of the pretrained models in docs/results.md are those of their runs' tables, where these exist."""

import re

import pandas as pd
import pytest
from stub_checkout import ROOT

from form_invariance.experiment.contrasts.questions import QUESTIONS

RESULTS = (ROOT / "docs/results.md").read_text()
QWEN = ["qwen/qwen2.5-coder-0.5b", "qwen_1.5b/qwen2.5-coder-1.5b"]
SMOLLM2 = ["smollm2/smollm2-135m"]

VERDICT = re.compile(r"\] (yes|no|undecided|mixed)")
SAME = {"same": ["jaccard", "jaccard beyond operator"]}
LARGER = {
    **SAME,
    "necessary": ["probability at the last token"],
    "exchange": ["probability", "probability kept", "accuracy", "probability beyond operator"],
    "shared": ["probability"],
    "specific": ["probability", "probability beyond control"],
    "computed": ["margin"],
}
SHARED = {"sufficient": ["probability", "faithfulness"], "necessary": ["probability"], "repaired": ["rate"]}
SHARED |= {"beyond_the_answer": ["rate"], "imposed": ["rate"], "interchange": ["beyond copied"]}
WORDS = {**SAME, "sufficient": ["probability"], "necessary": ["accuracy"], "exchange": ["probability kept"]}
WORDS |= {"specific": ["probability"], "repaired": ["rate"], "served": ["rate"]}
SECTIONS = {
    "### The same in the larger model": (QWEN, 10, LARGER),
    "### The shared neurons": (QWEN, 10, SHARED),
    "## A pretrained model, with words": (SMOLLM2, 50, WORDS),
}
"""The models by column, k, and the lines of a section's last table (metrics by question), by heading."""


@pytest.mark.parametrize(
    ("heading", "model"), [(heading, model) for heading, (models, *_) in SECTIONS.items() for model in models]
)
def test_the_documents_verdicts_are_those_of_the_run(heading, model):
    models, k, metrics = SECTIONS[heading]
    column, path = 2 + models.index(model), ROOT / "results" / model / "shared/verdicts.parquet"
    rows = [(question, metric) for question, own in metrics.items() for metric in own]
    section = re.split(r"\n##+ ", RESULTS.split(f"{heading}\n", 1)[1], maxsplit=1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and VERDICT.search(line)]
    cells = [line.split("|")[column] for line in lines]
    assert len(cells) == len(rows)
    if not path.exists():
        pytest.skip(f"needs {path.relative_to(ROOT)}")
    verdicts = pd.read_parquet(path).query(f"operator == 'all' and k == {k}").set_index(["question", "metric"])
    for cell, key in zip(cells, rows, strict=True):
        row = verdicts.loc[key]
        margin = QUESTIONS[key[0]].parts[key[1]].margin
        values = [*row[["value", "control_value"]], *(margin + row[["difference", "low", "high"]])]
        numbers = [float(text.replace("−", "-")) for text in re.findall(r"−?\d+\.\d\d", cell)]
        assert numbers == pytest.approx(values, abs=0.0051), key
        assert f"] {row['verdict']}" in cell, key
