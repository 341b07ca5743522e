"""The configuration, and what several rules share."""

import os
import sys
from functools import partial
from itertools import permutations
from pathlib import Path, PurePosixPath
from shlex import quote

from form_invariance.errors import UserError
from form_invariance.workflow import config_check, job_sizes, model_checks
from form_invariance.workflow.rule_options import (
    asked_of,
    expression_of,
    in_turn,
    keyed,
    one_of,
    run_options,
    source_options,
    table_options,
    task_options,
)
from form_invariance.workflow.source_digest import source_digest

ROOT = Path(str(workflow.current_basedir)).parents[1]

# Jobs run with the interpreter that runs Snakemake, even where its environment is not activated, and with the source
# whose digest they record. A job's conda environment brings its own interpreter, but not this source.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
shell.prefix(f"set -euo pipefail; export PYTHONPATH={quote(str(Path(config_check.__file__).parents[2]))}; ")

try:
    config = config_check.read(workflow.configfiles, config, ROOT / "config")
    SITE = job_sizes.read_site(ROOT / "config/cluster.yaml")
except UserError as error:
    # Snakemake would report an exception with the location of this line.
    sys.exit(f"error: {error}")

MODELS = list(config["models"])
FORMATS = list(config["formats"])
OPERATORS = list(config["operators"])
# The expressions of operators that are whole-number arithmetic; the others are tables, or ask a digit.
EXPRESSIONS = {name: expression_of(operator) for name, operator in config["operators"].items()}
NUMBER_OPERATORS = [name for name, expression in EXPRESSIONS.items() if expression]
# For the stages that are about numbers alone: no model where there is no such operator.
NUMBER_MODELS = MODELS if NUMBER_OPERATORS else []
CELLS = dict(model=MODELS, format=FORMATS, operator=OPERATORS)
every_format = partial(expand, format=FORMATS, allow_missing=True)
every_operator = partial(expand, operator=OPERATORS, allow_missing=True)
every_number_cell = partial(expand, format=FORMATS, operator=NUMBER_OPERATORS, allow_missing=True)
every_cell = partial(expand, format=FORMATS, operator=OPERATORS, allow_missing=True)
DIRECTIONS = [f"{donor}_to_{target}" for donor, target in permutations(FORMATS, 2)]
KS = sorted(config["k"])
CENTER = "--center-logits" if config["center_logits"] else "--no-center-logits"

# What `all` makes; each rule file adds its own.
TABLES = []
PAGES = []
# Figures ("STAGE NAME") and stages with a question in the report, each with its models (None: one for all models) and
# its inputs, as `table_options` takes them.
FIGURES = {}
ANSWERS = {}
FIGURE_KINDS = ["png", "svg", "pdf"]


def tokenizer_options(wildcards) -> list[str]:
    """Options that name a model of which only the tokenizer is used."""
    files = f"results/{wildcards.model}/model_files.parquet"
    return [*source_options(config["models"][wildcards.model]), "--model-files", files]


def model_options(wildcards) -> list[str]:
    """Options that name a model and say how it runs."""
    return [*tokenizer_options(wildcards), *run_options(config["models"][wildcards.model])]


def onset_probes(wildcards) -> list[str]:
    """The probe tables that determine the first late layer; none unless it is the onset."""
    wanted = FORMATS if config["late_from"] == "onset" else []
    return expand("results/{model}/{format}/probe.parquet", model=wildcards.model, format=wanted)


def late_options(wildcards) -> list[str]:
    """Options that say where the late layers begin."""
    probes = keyed(onset_probes(wildcards), -2)
    return ["--late-from", str(config["late_from"]), *(["--probes", *probes] if probes else [])]


def figure_files(place: str) -> list[str]:
    """The files of a figure; the SVG goes into Snakemake's report, with a caption of its own if there is one."""
    name = PurePosixPath(place).name
    own = (ROOT / f"workflow/report/{name}.rst").exists()
    drawn = report(
        f"results/figures/{place}.svg",
        caption=f"../report/{name if own else 'figure'}.rst",
        category="{model}" if "{model}" in place else "All models",
        labels={"figure": name.replace("_", " ")},
    )
    return [drawn if kind == "svg" else f"results/figures/{place}.{kind}" for kind in FIGURE_KINDS]


def by_format(cells: list, operators: list = OPERATORS) -> list[list]:
    """What belongs to the cells of some operators, in the order of `every_cell`, as a list for each format."""
    return [cells[start : start + len(operators)] for start in range(0, len(cells), len(operators))]


def by_operator(cells: list) -> list[list]:
    """The same as a list for each operator."""
    return [cells[start :: len(OPERATORS)] for start in range(len(OPERATORS))]


def gpu_here() -> bool:
    """Whether a job can have a GPU; on a cluster, or in a dry run, that is not known here."""
    return not workflow.local_exec or workflow.dryrun or job_sizes.has_gpu()


model_job = partial(job_sizes.model_job, config["models"], SITE, gpu_here)
table_job = partial(job_sizes.table_job, SITE, lambda: not workflow.local_exec)
