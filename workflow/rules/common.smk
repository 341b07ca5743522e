"""Configuration, and the helpers that several rules use."""

import os
import re
import sys
from itertools import permutations
from pathlib import Path, PurePosixPath
from shlex import quote
from types import SimpleNamespace

import yaml

from form_invariance.errors import UserError
from form_invariance.model import files as model_files
from form_invariance.workflow import config_check, job_sizes, model_checks
from form_invariance.workflow.source_digest import source_digest

WORKFLOW = Path(workflow.basedir)

# Jobs run with the interpreter that runs Snakemake, even where its environment is not activated, and
# with the source whose digest they record. A job's conda environment brings its own interpreter, but no source.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
shell.prefix(f"set -euo pipefail; export PYTHONPATH={quote(str(Path(config_check.__file__).parents[2]))}; ")


def read_configuration(given: dict) -> tuple[dict, dict]:
    """The default configuration, its top-level keys replaced by the given ones, checked; and the cluster file."""
    try:
        for path in workflow.configfiles:
            # Snakemake has read it, and takes the last of two keys of one name.
            config_check.load(Path(path))
        merged = {**config_check.load(WORKFLOW / "../config/config.yaml"), **given}
        schema = config_check.load(WORKFLOW / "../config/schemas/config.schema.yaml")
        config_check.check(merged, schema, Path(".snakemake/checked_config"))
        return merged, job_sizes.read_site(WORKFLOW / "../config/cluster.yaml")
    except UserError as error:
        # Snakemake would wrap an exception in the location of this line; the sentence says it all.
        sys.exit(f"error: {error}")


config, SITE = read_configuration(config)

MODELS = list(config["models"])
FORMATS = list(config["formats"])
OPERATORS = list(config["operators"])
CELLS = dict(model=MODELS, format=FORMATS, operator=OPERATORS)
DIRECTIONS = [f"{donor}_to_{target}" for donor, target in permutations(FORMATS, 2)]
KS = sorted(config["k"])
HEADS = sorted(config.get("heads", []))
DOSES = sorted(config.get("dose", []))
VARIANTS = config_check.measured_variants(config)
VARIANT_OPERATORS = [operator for operator in OPERATORS if operator in {cell[1] for cell in VARIANTS}]
FIRST_MODEL = SimpleNamespace(model=MODELS[0])
FIGURE_FILES = ["png", "svg", "pdf"]
PAPER_TABLES = ["census", "probe", "agreement", "heuristic_summary", "significance", "families"]
EMBEDDED = ["embedded-shared", "embedded-separate"]


def one_of(names: list[str]) -> str:
    """A pattern that matches these names and nothing else."""
    return "|".join(map(re.escape, names))


def model_options(wildcards) -> list[str]:
    """Command-line options that name a model and how it runs, as one word each, whatever sign a value begins with."""
    model = config["models"][wildcards.model]
    given = [f"--{key}={model[key]}" for key in ("dtype", "device") if key in model]
    return [*tokenizer_options(wildcards), *given]


def tokenizer_options(wildcards) -> list[str]:
    """Command-line options that name a model whose tokenizer alone is used."""
    return [*source_options(wildcards), "--model-files", f"results/{wildcards.model}/model_files.parquet"]


def source_options(wildcards) -> list[str]:
    """Command-line options that say where a model comes from."""
    model = config["models"][wildcards.model]
    revision = [f"--revision={model['revision']}"] if "revision" in model else []
    return [f"--model={model['source']}", *revision]


def on_gpu(wildcards) -> bool:
    """Whether a job that runs a model asks for a GPU: unless the model is to run on a CPU."""
    return config["models"][wildcards.model].get("device") != "cpu"


def gpus(wildcards) -> int | None:
    """GPUs of a job that runs a model: one, unless the cluster file has a gres, or `auto` finds none here."""
    if SITE["gpu"].get("gres") and on_gpu(wildcards):
        return None
    named = config["models"][wildcards.model].get("device", "auto") != "auto"
    without = workflow.local_exec and not workflow.dryrun and not named and not job_sizes.has_gpu()
    return 1 if on_gpu(wildcards) and not without else 0


def parameters(wildcards) -> int:
    """Parameters of the job's model."""
    model = config["models"][wildcards.model]
    return job_sizes.parameters(model["source"], model.get("revision"))


def model_job(minutes: int, extra_mb: int = 0) -> dict:
    """Resources of a job that runs a model, by the model's size and the attempt."""

    def mem_mb(wildcards, attempt):
        return extra_mb * attempt + job_sizes.memory_mb(parameters(wildcards), on_gpu(wildcards), attempt)

    def runtime(wildcards, attempt):
        return job_sizes.minutes(parameters(wildcards), minutes, attempt)

    def of_site(key):
        return lambda wildcards: SITE["gpu" if on_gpu(wildcards) else "cpu"].get(key)

    site = {key: of_site(key) for key in {**SITE["cpu"], **SITE["gpu"]}}
    return {"gpu": gpus, "mem_mb": mem_mb, "runtime": runtime, **site}


def table_job(mem_mb: int, minutes: int = 10) -> dict:
    """Resources of a job that reads and writes tables or figures."""
    return {
        "mem_mb": lambda wildcards, attempt: mem_mb * attempt,
        "runtime": lambda wildcards, attempt: minutes * attempt,
        **SITE["cpu"],
    }


def local_files(wildcards) -> list[str]:
    """The files of a model that is here already; none for a hub id, whose revision stands for them."""
    folder = model_checks.local_folder(config["models"][wildcards.model]["source"])
    found = [] if folder is None else model_files.files_read(folder)
    return [str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path) for path in found]


def cells_of(pattern: str, **wanted: list[str]):
    """An input function: `pattern` for all values of some wildcards, the others taken from the job."""

    def of(wildcards):
        fixed = {name: value for name, value in wildcards.items() if name not in wanted}
        return expand(pattern, **fixed, **wanted)

    return of


def keyed(paths: list[str], *parts: int) -> list[str]:
    """KEY=PATH options, the key being some parts of the path without its suffix, counted from its end."""
    names = [PurePosixPath(path).with_suffix("").parts for path in paths]
    return [f"{'/'.join(name[part] for part in parts)}={path}" for name, path in zip(names, paths, strict=True)]


def template_options() -> list[str]:
    """Every canonical template as an option."""
    return [
        f"--template={name}/{operator}={config['formats'][name]['templates'][operator]}"
        for name in FORMATS
        for operator in OPERATORS
    ]


def other_censuses(wildcards) -> list[str]:
    """Censuses of the other operators, where corrupt partners come from them."""
    if config["corrupt"] == "within_operator":
        return []
    others = [operator for operator in OPERATORS if operator != wildcards.operator]
    pattern = "results/{model}/{format}/{operator}/census.parquet"
    return expand(pattern, model=wildcards.model, format=wildcards.format, operator=others)


def other_census_options(wildcards) -> list[str]:
    """The option that names the other operators' censuses; none where there are none."""
    paths = other_censuses(wildcards)
    return ["--other-census", *keyed(paths, -2)] if paths else []


def onset_probes(wildcards) -> list[str]:
    """The probe tables that the late layers follow from, where they begin at the onset."""
    if config["late_from"] != "onset":
        return []
    return expand("results/{model}/{format}/probe.parquet", model=wildcards.model, format=FORMATS)


def late_options(wildcards) -> list[str]:
    """Command-line options that say where the late layers begin."""
    paths = onset_probes(wildcards)
    probes = ["--probes", *named(FORMATS, paths)] if paths else []
    return ["--late-from", str(config["late_from"]), *probes]


def named(names: list[str], paths) -> list[str]:
    """NAME=PATH options."""
    return [f"{name}={path}" for name, path in zip(names, paths, strict=True)]


def figure(name: str, caption: str | None = None) -> list[str]:
    """The files of a figure; the SVG goes into the report, with the caption of its own name unless another is named."""
    path = f"results/figures/{name}"
    title = PurePosixPath(name).name
    drawn = report(
        f"{path}.svg",
        caption=str(WORKFLOW / f"report/{caption or title}.rst"),
        category="{model}" if "{model}" in name else "All models",
        labels={"figure": title.replace("_", " ")},
    )
    return [drawn if kind == "svg" else f"{path}.{kind}" for kind in FIGURE_FILES]


def figures() -> list[str]:
    """Every figure, in every kind of file."""
    kinds = ["probe", "probe_positions", "jaccard", "keep_only", "knockout", "transfer", "heuristics"]
    optional = ["heads"] if HEADS else []
    names = [
        "prompt_formats",
        "summary",
        "planted",
        *expand("{model}/{kind}", model=MODELS, kind=[*kinds, *optional]),
    ]
    return expand("results/figures/{name}.{extension}", name=names, extension=FIGURE_FILES)


def tables() -> list[str]:
    """Every table, so that one that was deleted is made again."""
    by_cell = [
        "census",
        "dataset",
        "corrupt",
        "attribution",
        "ranking",
        "interventions",
        "interventions_prompts",
        "heuristics",
        "neuron_effects",
    ]
    shared = ["overlap", "reliability", "circuit", "classified_circuit", "agreement", "labelled"]
    return [
        *expand("results/{model}/{format}/{operator}/{table}.parquet", table=by_cell, **CELLS),
        *expand(
            "results/{model}/shared/{operator}/{table}.parquet", table=shared, model=MODELS, operator=OPERATORS
        ),
        *probe_tables(),
        *expand("results/{model}/model_files.parquet", model=MODELS),
        *precision_tables(),
        *audits(),
        *head_tables(),
        "results/planted.parquet",
        *transfer_tables(),
        *doses(),
        *variants(),
        *expand("results/tables/{table}.{extension}", table=PAPER_TABLES, extension=["csv", "md", "tex"]),
    ]


def precision_tables() -> list[str]:
    """The precision tables of the models that do not run in float32; none where no prompts are given."""
    if not config["precision_prompts"]:
        return []
    lower = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
    pattern = "results/{model}/{format}/{operator}/precision.parquet"
    return expand(pattern, model=lower, format=FORMATS, operator=OPERATORS)


def audited() -> list[str]:
    """The models whose every late neuron is patched exactly."""
    width = {name: model_checks.width(model["source"]) for name, model in config["models"].items()}
    return [name for name in MODELS if width[name] is not None and width[name] <= config["candidates"]]


def audits() -> list[str]:
    """The tables and figures of the audited models."""
    whole = audited()
    return [
        *expand("results/{model}/shared/audit.parquet", model=whole),
        *expand("results/figures/{model}/audit.{extension}", model=whole, extension=FIGURE_FILES),
    ]


def browsers() -> list[str]:
    """The neuron browser of every model."""
    return expand("results/browser/{model}.html", model=MODELS)


def head_tables() -> list[str]:
    """The tables of the attention heads; none where no number of heads is given."""
    if not HEADS:
        return []
    return [
        *expand("results/{model}/{format}/{operator}/heads.parquet", **CELLS),
        *expand("results/{model}/shared/{operator}/head_overlap.parquet", model=MODELS, operator=OPERATORS),
    ]


def probe_tables() -> list[str]:
    """The probe tables of every model: each format's, and that over all formats."""
    return expand("results/{model}/{folder}/probe.parquet", model=MODELS, folder=[*FORMATS, "shared"])


def transfer_tables() -> list[str]:
    """The transfer tables of every model, operator and direction."""
    pattern = "results/{model}/transfer/{operator}/{direction}.parquet"
    return expand(pattern, model=MODELS, operator=OPERATORS, direction=DIRECTIONS)


def doses() -> list[str]:
    """The tables and figures of the dose of transfer, where the configuration names doses."""
    if not DOSES:
        return []
    return [
        *expand("results/{model}/shared/{operator}/dose.parquet", model=MODELS, operator=OPERATORS),
        *expand("results/figures/{model}/dose.{extension}", model=MODELS, extension=FIGURE_FILES),
    ]


def variants() -> list[str]:
    """The tables and figures of the paraphrases, where some are measured."""
    if not VARIANTS:
        return []
    return [
        *expand("results/{model}/shared/{operator}/variants.parquet", model=MODELS, operator=VARIANT_OPERATORS),
        *expand("results/figures/{model}/variants.{extension}", model=MODELS, extension=FIGURE_FILES),
    ]


def variant_options(wildcards) -> list[str]:
    """Every variant that a cell takes as an option."""
    taken = VARIANTS[wildcards.format, wildcards.operator]
    return [f"--variant={operator}={text}" for operator, texts in taken.items() for text in texts]


def formats_with_variants(wildcards) -> list[str]:
    """The formats that have variants of the job's operator."""
    return [name for name, operator in VARIANTS if operator == wildcards.operator]


def optional_stages() -> list[str]:
    """Command-line options that say which stages ran that a run may be without."""
    stages = [*(["heads"] if HEADS else []), *(["dose"] if DOSES else [])]
    given = {"--stages": stages, "--variant-operators": VARIANT_OPERATORS, "--audited": audited()}
    return [word for option, values in given.items() if values for word in (option, *values)]
