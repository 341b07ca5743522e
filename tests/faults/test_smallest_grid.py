"""Every size at the smallest that the configuration allows: the run ends, and says where nothing is left."""

import subprocess
import sys

import yaml
from stub_checkout import environment, make_checkout

from form_invariance.stages.agreement.table import AGREEMENT
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.tables.files import read_table

SMALLEST = {
    "models": {"embedded-shared": {"source": "embedded:embedded-shared"}},
    "operators": {"addition": "a + b"},
    "census_pairs": 300,
    "train_prompts": 2,
    "eval_prompts": 1,
    "corrupt_seeds": 1,
    "probe_prompts": 40,
    "k": [1, 1032],
    "random_seeds": 1,
    "matched_seeds": 1,
    "mean_cache_prompts": 1,
    "transfer_pairs": 1,
    "bootstrap": 1,
    "k_shown": 1,
    "heuristic_max_operand": 20,
    "permutations": 1,
}


def test_the_smallest_grid(tmp_path):
    folder = make_checkout(tmp_path / "checkout", stub=False)
    (folder / "smallest.yaml").write_text(yaml.safe_dump(SMALLEST))
    words = [sys.executable, "-m", "snakemake", "--configfile", "smallest.yaml"]
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shared = folder / "results/embedded-shared/shared/addition"
    overlap = read_table(shared / "overlap.parquet", OVERLAP)
    assert overlap[(overlap["k"] == 1032) & (overlap["membership"] == "top_k")]["jaccard"].eq(1).all()
    assert read_table(shared / "agreement.parquet", AGREEMENT)["neurons"].eq(0).all()
    report = (folder / "results/report.html").read_text()
    assert "nan%" not in report
    assert "No shared neuron has a label" in report
