"""The configuration, and what several rules share."""

import os
import sys
from functools import partial
from itertools import permutations
from pathlib import Path, PurePosixPath

ROOT = Path(str(workflow.current_basedir)).parents[1]
# The source of this checkout, if it has one, before what is installed.
sys.path[:0] = [str(source) for source in [ROOT / "src"] if source.exists()]

from form_invariance.errors import UserError
from form_invariance.workflow import (
    config_check,
    cpu_costs,
    file_digests,
    job_costs,
    job_server,
    job_sizes,
    records,
)
from form_invariance.workflow.given import with_items
from form_invariance.workflow.paths import check_folders, shell_prefix
from form_invariance.workflow.rule_options import (
    asked_of,
    expression_of,
    files_of,
    keyed,
    of_model,
    one_of,
    option,
    run_options,
    settings_of,
    source_options,
    table_options,
    task_options,
)
from form_invariance.workflow.source_digest import source_digest

# Jobs run with the interpreter that runs Snakemake, even where its environment is not activated, and with the source
# whose digest they record. A job's conda environment brings its own interpreter, but not this source.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
shell.prefix(shell_prefix(Path(config_check.__file__).parents[2], Path(".snakemake")))

try:
    check_folders(checkout=ROOT, working_folder=Path.cwd())
    # The configuration of a module comes from the Snakefile that uses it, not from the command line.
    items = workflow.config_settings.config_args if workflow.modifier.is_main_snakefile() else []
    config = config_check.read(
        workflow.configfiles, with_items(config, workflow.configfiles, items), ROOT / "config"
    )
    # In the jobs of a cluster, those that the run began with.
    FILES = file_digests.digests(config, {} if workflow.is_main_process else records.begun())
    SITE = job_sizes.read_site(ROOT / "config/cluster.yaml")
    # Not in the jobs of a cluster; nor in a module, whose results have a prefix that is unknown here.
    if workflow.is_main_process and workflow.modifier.is_main_snakefile():
        records.check(config, FILES)
except UserError as error:
    # Snakemake would report an exception with the location of this line.
    sys.exit(f"error: {error}")

# The cells of a group on a cluster import the libraries once, unless they have a conda environment.
if not workflow.is_main_process and workflow.local_exec and not workflow.deployment_settings.deployment_method:
    # Snakemake names a group's jobs on its command line, as RULE:WILDCARDS.
    if sum(word.partition(":")[0] in job_costs.GROUPED_RULES for word in sys.argv) > 1:
        job_server.begin()

MODELS = list(config["models"])
FORMATS = list(config["formats"])
OPERATORS = list(config["operators"])
# Variants are cells that are only ranked, with the format FORMAT~N.
VARIANTS = config_check.measured_variants(config)
# Operators that are whole-number arithmetic; the others are tables, or ask a digit.
NUMBER_OPERATORS = [name for name, operator in config["operators"].items() if expression_of(operator)]
CELLS = dict(model=MODELS, format=FORMATS, operator=OPERATORS)
every_format = partial(expand, format=FORMATS, allow_missing=True)
every_operator = partial(expand, operator=OPERATORS, allow_missing=True)
every_cell = partial(expand, format=FORMATS, operator=OPERATORS, allow_missing=True)
# The parts of a path that name a cell, for `keyed`.
CELL = (-3, -2)
DIRECTIONS = [f"{donor}_to_{target}" for donor, target in permutations(FORMATS, 2)]
settings = partial(settings_of, config)

# What `all` makes; each rule file adds its own.
TABLES, PAGES = [], []
# By name, the figures of a model (their stage, models and inputs), and by stage, the questions of the report (models
# and inputs). Inputs are as in `table_options`.
FIGURES, ANSWERS = {}, {}
FIGURE_KINDS = ["png", "svg", "pdf"]


def model_options(wildcards) -> list[str]:
    """Options that name a model, and say how it runs."""
    return run_options(config["models"][wildcards.model])


def answered(model: str) -> dict[str, list]:
    """The groups of tables that the questions about a model need."""
    return {
        name: given for models, inputs in ANSWERS.values() if model in models for name, given in inputs.items()
    }


def on_cluster() -> bool:
    """Whether jobs are a cluster's."""
    return not workflow.local_exec


def gpu_here() -> bool:
    """Whether a job can have a GPU; on a cluster, or in a dry run, that is not known here."""
    return on_cluster() or workflow.dryrun or job_sizes.has_gpu()


model_job = partial(
    job_sizes.model_job, config["models"], SITE, gpu_here, on_cluster, partial(cpu_costs.expected_seconds, config)
)
table_job = partial(job_sizes.table_job, SITE, on_cluster, partial(cpu_costs.cpu_seconds, config))
