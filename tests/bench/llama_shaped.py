"""The whole pipeline on a model of Llama-3.2-1B's shape with random weights: its time and its memory.

    python tests/bench/llama_shaped.py FOLDER [tokenizer.model of Llama 3]

writes a Hugging Face folder (16 layers, d 2048, MLP 8192, 32 heads, 8 key/value heads, vocabulary 128,256,
tied, Llama 3's rope scaling) and runs a cut-down grid: two formats, one operator, four train prompts, 64
candidates. Its stage engine_check compares the engine with TransformerLens. Random weights answer nothing right,
so the census is taken and every answer then marked as right. The script prints each stage's time and memory.
Without Llama 3's tokenizer it takes the embedded models' own, which splits the templates alike.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import torch
import yaml

from benchmark.random_models import SHAPES, write_random_model
from form_invariance.stages.census.table import CENSUS
from form_invariance.tables.files import provenance_of, read_table, write_table

ROOT = Path(__file__).parents[2]
SHAPE = SHAPES["llama-3.2-1b"]


def write_model(folder: Path, tokenizer: Path | None) -> None:
    """Write the folder, in bfloat16, with the id of Llama 3's BOS."""
    write_random_model(folder, SHAPE, torch.bfloat16)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bos_token_id": 128000}))
    write_tokenizer(folder, tokenizer)


def write_tokenizer(folder: Path, source: Path | None) -> None:
    """Llama 3's tokenizer from its tokenizer.model, or the embedded models'."""
    if source is None:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(ROOT / "src/form_invariance/embedded/models/embedded-shared" / name, folder / name)
        return
    sys.path.append(str(ROOT / "tests"))
    import llama3

    llama3.read(source).save(str(folder / "tokenizer.json"))
    options = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "add_bos_token": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(options))


def snakemake(base: Path, *words: str) -> None:
    """Run Snakemake on the cut-down grid; where it fails, end with what it said last."""
    done = subprocess.run(
        [
            *("snakemake", "--snakefile", str(ROOT / "workflow/Snakefile"), "--directory", str(base)),
            *("--configfile", str(base / "config.yaml"), "--cores", "2", *words),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout[-5000:])


def mark_as_right(base: Path) -> None:
    """Let every answer of the census count as right."""
    for path in base.glob("results/*/*/*/census.parquet"):
        census = read_table(path, CENSUS)
        provenance = provenance_of(path)
        write_table(census.assign(correct=True), path, CENSUS, provenance, provenance["keys"])


def main() -> None:
    """Run everything."""
    base = Path(sys.argv[1]).resolve()
    tokenizer = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if not (base / "model").exists():
        write_model(base / "model", tokenizer)
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    config = {
        "models": {"llama-shaped": {"source": str(base / "model")}},
        "operators": {"addition": "a + b"},
        "formats": {name: default["formats"][name] for name in ("symbolic", "word")},
        "census_pairs": 24,
        "operands": {"operand_min": 6, "operand_max": 40, "answer_min": 12, "answer_max": 80},
        "train_prompts": 4,
        "eval_prompts": 4,
        "probe_prompts": 24,
        "candidates": 64,
        "k": [10, 64],
        "random_seeds": 2,
        "matched_seeds": 1,
        "mean_cache_prompts": 8,
        "transfer_pairs": 4,
        "variant_operators": [],
        "bootstrap": 20,
        "k_shown": 64,
        "heuristic_max_operand": 20,
        "permutations": 100,
    }
    (base / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    start = time.monotonic()
    snakemake(base, "census_all")
    mark_as_right(base)
    snakemake(base)
    print(f"whole pipeline: {time.monotonic() - start:.0f} s")
    rows = [
        {"stage": path.relative_to(base / "results/benchmarks").parts[0], **pd.read_csv(path, sep="\t").iloc[0]}
        for path in sorted(base.glob("results/benchmarks/**/*.tsv"))
    ]
    table = pd.DataFrame(rows)[["stage", "s", "max_rss"]].astype({"s": float, "max_rss": float})
    print(table.groupby("stage").agg(jobs=("s", "size"), seconds=("s", "sum"), largest_mb=("max_rss", "max")))


if __name__ == "__main__":
    main()
