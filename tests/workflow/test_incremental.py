"""Which jobs, and which of their cells, each change of configuration, source or files runs again."""

import os
import re
import subprocess
from contextlib import contextmanager
from itertools import product

import pytest
import yaml
from stub_checkout import snakemake

FORMATS, OPERATORS = ("symbolic", "code", "word"), ("addition", "multiplication")
MODEL = "embedded-shared"
KEYS = ("model", "format", "operator")


def jobs_of(checkout):
    """Pending jobs as (rule, values of its wildcards), without the target rule."""
    status, out = snakemake(checkout, "-n")
    assert status == 0, out
    parts = re.split(r"^(?:local)?rule (\w+):$", out, flags=re.MULTILINE)[1:]
    found = set()
    for rule, text in zip(parts[::2], parts[1::2], strict=True):
        wildcards = re.search(r"^    wildcards: (.*)$", text, re.MULTILINE)
        values = dict(item.split("=") for item in wildcards[1].split(", ")) if wildcards else {}
        found.add((rule, *(values[key] for key in (*KEYS, "intervention", "circuit") if key in values)))
    return found - {("all",)}


def jobs(rules, models=(MODEL,), formats=FORMATS, operators=OPERATORS):
    """The jobs of some rules in all cells that are named, and the report, which gathers everything."""
    by_cell = (
        "census",
        "dataset",
        "attribution",
        "patching",
        "ranking",
        "interventions",
        "classify",
        "neuron_effects",
    )
    by_format, by_operator = (
        ("probe", "mean_cache"),
        ("overlap", "heads", "head_overlap", "transfer", "dose", "agreement"),
    )
    by_model = (
        "model_files",
        "audit",
        "probe_across_formats",
        "probe_figure",
        "jaccard_figure",
        "variants_figure",
        "transfer_figure",
        "dose_figure",
        "heuristics_figure",
        "browser",
        "heads_figure",
    )
    measured = [operator for operator in operators if operator == "addition"]
    kinds = {
        "variant_effects": (models, formats, measured),
        "variant_overlap": (models, measured),
        **dict.fromkeys(by_cell, (models, formats, operators)),
        **dict.fromkeys(by_format, (models, formats)),
        **dict.fromkeys(by_operator, (models, operators)),
        **dict.fromkeys(by_model, (models,)),
        "circuit": (models, operators, ("circuit",)),
        "classified_circuit": (models, operators, ("classified_circuit",)),
        "interventions_figure": (models, ("keep_only", "knockout")),
    }
    named = {"classified_circuit": "circuit"}
    wanted = [*rules.split(), "report"] if rules else []
    return {(named.get(rule, rule), *values) for rule in wanted for values in product(*kinds.get(rule, ()))}


FROM_VARIANTS = "variant_effects variant_overlap variants_figure"
INTERVENED = "interventions interventions_figure summary_figure"
FROM_RANKING = (
    "audit circuit classified_circuit overlap jaccard_figure transfer transfer_figure dose dose_figure classify "
    "agreement"
)
LOOKED_AT = "neuron_effects browser"
FROM_PATCHING = (
    f"patching ranking {FROM_RANKING} {FROM_VARIANTS} heuristics_figure paper_tables {INTERVENED} {LOOKED_AT}"
)
FROM_HEADS = "heads head_overlap heads_figure"
FROM_DATASET = f"dataset attribution mean_cache {FROM_PATCHING} {FROM_HEADS}"
PLANTED = "planted planted_figure"
EVERYTHING = f"census probe probe_across_formats probe_figure {FROM_DATASET}"
FIGURES = """prompt_formats probe_figure jaccard_figure variants_figure interventions_figure transfer_figure
    dose_figure heuristics_figure heads_figure summary_figure"""


@contextmanager
def configured(checkout, change):
    """The configuration changed for a while."""
    path = checkout / "config/config.yaml"
    text = path.read_text()
    config = yaml.safe_load(text)
    change(config)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    yield
    path.write_text(text)


@contextmanager
def appended(path, text="\n# changed\n"):
    """A file with something at its end for a while."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before + text.encode())
    yield
    path.write_bytes(before)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_nothing_changed(finished):
    assert jobs_of(finished) == set()


def test_a_k_is_added(finished):
    with configured(finished, lambda config: config["k"].append(100)):
        pending = jobs_of(finished)
    assert pending == jobs("audit circuit overlap jaccard_figure variant_overlap variants_figure") | jobs(
        f"transfer transfer_figure {INTERVENED}"
    )


def test_a_dose_is_added(finished):
    with configured(finished, lambda config: config["dose"].append(0.3)):
        pending = jobs_of(finished)
    assert pending == jobs("dose dose_figure")


def test_a_variant_is_changed(finished):
    def change(config):
        config["formats"]["word"]["variants"]["addition"][0] = "{a} plus {b} is "

    with configured(finished, change):
        pending = jobs_of(finished)
    assert pending == jobs("variant_effects", formats=["word"]) | jobs("variant_overlap variants_figure")


def test_an_operators_variants_are_measured_too(finished):
    with configured(finished, lambda config: config["variant_operators"].append("multiplication")):
        pending = jobs_of(finished)
    new = {(rule, MODEL, name, "multiplication") for rule in ["variant_effects"] for name in FORMATS}
    assert pending == new | {("variant_overlap", MODEL, "multiplication")} | jobs("variants_figure")


def test_a_number_of_heads_is_added(finished):
    with configured(finished, lambda config: config["heads"].append(12)):
        pending = jobs_of(finished)
    assert pending == jobs("head_overlap heads_figure")


def test_a_template_is_changed(finished):
    def change(config):
        config["formats"]["word"]["templates"]["addition"] = "{a} plus {b} is "

    with configured(finished, change):
        pending = jobs_of(finished)
    # The means leave out every format's pairs, and average over a format's operators.
    assert pending == (
        jobs("census dataset attribution patching ranking", formats=["word"], operators=["addition"])
        | jobs("variant_effects", formats=["word"])
        | jobs("variant_overlap")
        | jobs("probe", formats=["word"])
        | jobs("circuit classified_circuit overlap transfer dose classify agreement", operators=["addition"])
        | jobs("heads head_overlap", operators=["addition"])
        | jobs(f"mean_cache interventions {LOOKED_AT} paper_tables probe_across_formats audit")
        | jobs(FIGURES)
    )


def test_an_operator_is_added(finished):
    with configured(finished, lambda config: config["operators"].update(subtraction="a - b")):
        pending = jobs_of(finished)
    new = f"census dataset attribution patching ranking heads head_overlap {FROM_RANKING}"
    figures = FIGURES.replace("variants_figure", "")
    # Probes and means are of all operators together.
    assert pending == (
        jobs(new, operators=["subtraction"])
        | jobs("interventions neuron_effects", operators=[*OPERATORS, "subtraction"])
        | jobs(f"browser mean_cache probe probe_across_formats paper_tables {figures}")
    )


def test_a_model_is_added(finished):
    with configured(
        finished, lambda config: config["models"].update(other={"source": "embedded:embedded-separate"})
    ):
        pending = jobs_of(finished)
    # Every browser links to the others.
    assert pending == jobs(f"model_files {EVERYTHING}", models=["other"]) | jobs(
        "summary_figure paper_tables browser"
    )


def test_the_seed_is_changed(finished):
    with configured(finished, lambda config: config.update(seed=1)):
        pending = jobs_of(finished)
    assert pending == jobs(f"{EVERYTHING} {PLANTED}")


@pytest.mark.parametrize(("key", "more"), [("random_seeds", " dose dose_figure"), ("matched_seeds", "")])
def test_the_random_controls_are_changed(finished, key, more):
    with configured(finished, lambda config: config.update({key: 4})):
        pending = jobs_of(finished)
    assert pending == jobs(INTERVENED + more)


@pytest.mark.parametrize(
    ("module", "rules"),
    [
        ("drawing/style.py", f"{FIGURES} audit planted_figure"),
        ("stages/transfer/figure.py", "transfer_figure"),
        (
            "stages/interventions/ablation.py",
            f"{INTERVENED} {LOOKED_AT} transfer transfer_figure dose dose_figure {PLANTED}",
        ),
        ("stages/heads/compute.py", FROM_HEADS),
        ("browser/browser.js", "browser"),
        ("model/replay.py", f"attribution {FROM_PATCHING} {FROM_HEADS} {PLANTED}"),
        ("stages/planted/construction.py", PLANTED),
        ("stages/planted/figure.py", "planted_figure"),
        ("stages/paraphrases/effects.py", FROM_VARIANTS),
        ("stages/paraphrases/compute.py", "variant_overlap variants_figure"),
        ("bench/cost.py", ""),
        ("workflow/plan.py", ""),
    ],
)
def test_a_module_is_edited(finished, module, rules):
    with appended(finished / "src/form_invariance" / module):
        pending = jobs_of(finished)
    assert pending == jobs(rules)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "model.safetensors"])
def test_a_models_file_is_changed(finished, name):
    path = finished / "src/form_invariance/embedded/models" / MODEL / name
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before + b" " if path.suffix == ".json" else before[:-1] + bytes([before[-1] ^ 1]))
    try:
        pending = jobs_of(finished)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert pending == jobs(f"model_files {EVERYTHING} prompt_formats summary_figure")


@pytest.mark.parametrize("name", ["README.md", "config/README.md", "docs/probes.md"])
def test_a_document_is_edited(finished, name):
    path = finished / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with appended(path):
        assert jobs_of(finished) == set()


@pytest.mark.parametrize(
    ("output", "pending"),
    [
        (
            f"{MODEL}/word/addition/attribution.parquet",
            jobs("attribution patching ranking", formats=["word"], operators=["addition"])
            | jobs("circuit classified_circuit overlap transfer dose classify agreement", operators=["addition"])
            | jobs("interventions neuron_effects", operators=["addition"])
            | jobs("variant_overlap variants_figure")
            | jobs("audit browser jaccard_figure transfer_figure dose_figure heuristics_figure paper_tables")
            | jobs("interventions_figure summary_figure"),
        ),
        (
            f"{MODEL}/shared/addition/overlap.parquet",
            jobs("overlap", operators=["addition"]) | jobs("jaccard_figure summary_figure"),
        ),
        (f"{MODEL}/word/probe.parquet", jobs("probe", formats=["word"]) | jobs("probe_figure paper_tables")),
        (f"figures/{MODEL}/jaccard.svg", jobs("jaccard_figure")),
    ],
)
def test_an_output_is_deleted(finished, output, pending):
    path = finished / "results" / output
    content, status = path.read_bytes(), path.stat()
    path.unlink()
    found = jobs_of(finished)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert found == pending


@pytest.mark.parametrize(
    "name",
    [
        f"src/form_invariance/embedded/models/{MODEL}/model.safetensors",
        f"results/{MODEL}/word/addition/census.parquet",
        f"results/{MODEL}/word/addition/ranking.parquet",
    ],
)
def test_an_input_is_touched(finished, name):
    (finished / name).touch()
    assert jobs_of(finished) == set()


def test_another_branch_is_checked_out_and_the_first_again(finished):
    def git(*words):
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *who, *words], cwd=finished, check=True, capture_output=True)

    git("init", "-b", "first")
    (finished / ".gitignore").write_text("results/\n.snakemake/\ncalls.jsonl\n")
    git("add", "-A")
    git("commit", "-m", "first")
    git("checkout", "-b", "second")
    for name in ("model/replay.py", "stages/census/compute.py", "embedded/models/embedded-shared/config.json"):
        path = finished / "src/form_invariance" / name
        path.write_text(path.read_text() + "\n")
    git("commit", "-am", "second")
    assert ("census", MODEL, "word", "addition") in jobs_of(finished)
    git("checkout", "first")
    assert jobs_of(finished) == set()
