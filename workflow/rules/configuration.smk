"""The configuration, checked before the rules read it."""

import atexit
import os
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(str(workflow.current_basedir)).parents[1]
# Import the source of this checkout, if it has one, and not an installed package.
sys.path[:0] = [str(source) for source in [ROOT / "src"] if source.exists()]

from form_invariance.errors import exit_at_a_mistake
from form_invariance.problems.task_tables import odd_spaces
from form_invariance.workflow import (
    code_changes,
    config_check,
    file_digests,
    job_costs,
    job_server,
    job_sizes,
    records,
)
from form_invariance.workflow.given import left_out, with_items
from form_invariance.workflow.paths import check_folders, shell_prefix
from form_invariance.workflow.rule_options import copying_tasks, other_tasks, tables_of
from form_invariance.workflow.source_digest import source_digest
from form_invariance.workflow.undefined import undefined_verdicts

# Jobs run with the interpreter that runs Snakemake, even where its environment is not activated, and with the source
# whose digest they record. A job's conda environment brings its own interpreter, but not this source.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
shell.prefix(shell_prefix(Path(config_check.__file__).parents[2], Path(".snakemake")))

with exit_at_a_mistake():
    check_folders(checkout=ROOT, working_folder=Path.cwd())
    # The configuration of a module comes from the Snakefile that uses it, not from the command line.
    items = workflow.config_settings.config_args if workflow.modifier.is_main_snakefile() else []
    config = config_check.read(with_items(config, workflow.configfiles, items), ROOT / "config")
    # Jobs of a cluster use the digests with which their run began.
    FILES = file_digests.digests(config, {} if workflow.is_main_process else records.begun())
    OTHER_TASKS, COPYING_TASKS = other_tasks(config, FILES), copying_tasks(config)
    SITE = job_sizes.read_site(ROOT / "config/cluster.yaml")
    # Jobs of a cluster need no check. A module cannot check: its results have a prefix that is unknown here.
    if workflow.is_main_process and workflow.modifier.is_main_snakefile():
        records.check(config, FILES)

if workflow.is_main_process:
    records.check_triggers(workflow)
    # There is no hook at the end of a dry run.
    atexit.register(code_changes.say, workflow)

# The cells of a group on a cluster import the libraries once, unless they have a conda environment.
if not workflow.is_main_process and not workflow.deployment_settings.deployment_method:
    # Snakemake names a group's jobs on its command line, as RULE:WILDCARDS.
    if sum(word.partition(":")[0] in job_costs.GROUPED_RULES for word in sys.argv) > 1:
        job_server.begin()
