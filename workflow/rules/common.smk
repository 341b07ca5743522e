"""What several rules share."""

import json
from collections import namedtuple
from functools import partial
from itertools import chain, permutations

from form_invariance.experiment.answers import method_of
from form_invariance.stage_folders import part_of
from form_invariance.workflow.rule_options import (
    asked_of,
    dose_sizes,
    expression_of,
    is_table,
    joined_options,
    one_of,
    option,
    run_options,
    settings_of,
    task_options,
    task_sizes,
)

MODELS = list(config["models"])
FORMATS = list(config["formats"])
OPERATORS = list(config["operators"])
# Variants are cells that are only ranked, with the format FORMAT~N.
VARIANTS = config_check.measured_variants(config)
# Operators that are whole-number arithmetic; the others are tables, or ask a digit.
NUMBER_OPERATORS = [name for name, operator in config["operators"].items() if expression_of(operator)]
TASK_OPERATORS = [name for name, operator in config["operators"].items() if is_table(operator)]
# The options of commands that say what each operator asks.
ASKED = {name: task_options(operator, config["operands"], FILES) for name, operator in config["operators"].items()}
# The grid of every operator that is an expression, for the heuristics. One that asks a digit keeps its own limits.
GRIDS = {
    name: [f"--expression={expression_of(config['operators'][name])}"] if name in NUMBER_OPERATORS else ASKED[name]
    for name in OPERATORS
    if name not in TASK_OPERATORS
}
# A model's contrasts, computed from all its tables by prompt (MEASUREMENTS).
CONTRASTS = "<results>/{model}/shared/contrasts.parquet"
CELLS = dict(model=MODELS, format=FORMATS, operator=OPERATORS)
every_format = partial(expand, format=FORMATS, allow_missing=True)
every_operator = partial(expand, operator=OPERATORS, allow_missing=True)
every_cell = partial(expand, format=FORMATS, operator=OPERATORS, allow_missing=True)
every_grid = partial(expand, operator=list(GRIDS), allow_missing=True)
every_grid_cell = partial(expand, format=FORMATS, operator=list(GRIDS), allow_missing=True)
DIRECTIONS = [f"{donor}_to_{target}" for donor, target in permutations(FORMATS, 2)]
# settings("seed", pairs="census_pairs") is --seed SEED --pairs CENSUS_PAIRS.
settings = partial(settings_of, config)
# What `all` makes: tables and figures, and pages. Each rule file adds its own.
TARGETS, PAGES = [], []
# The figures of a model, by name. By stage: tables of the report's answers (ABOUT: the models, unless all), and of the
# explained page.
Figure = namedtuple("Figure", ["stage", "tables"])
FIGURES, ANSWERS, ABOUT, EXPLAINED = {}, {}, {}, {}
FIGURE_KINDS = ["png", "svg", "pdf"]
# Tables by prompt or pair, from which the contrasts are computed; and other contrasts that decide a question.
MEASUREMENTS, DECIDING = [], []


def model_options(wildcards, *more) -> list[str]:
    """Options that name a model, and say how it runs."""
    return run_options(config["models"][wildcards.model], "dtype", "device", *more)


def on_cluster() -> bool:
    """Whether jobs run on a cluster."""
    return not workflow.local_exec


def gpu_here() -> bool:
    """Whether a job can have a GPU. It is assumed on a cluster and in a dry run, where it is not known."""
    return on_cluster() or workflow.dryrun or job_sizes.has_gpu()


model_job = partial(
    job_sizes.model_job, config["models"], SITE, gpu_here, on_cluster, partial(job_costs.expected_seconds, config)
)
table_job = partial(job_sizes.table_job, SITE, on_cluster)
