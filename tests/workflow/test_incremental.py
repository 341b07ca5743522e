"""Which jobs, and which of their cells, each change of configuration, source or files runs again.

A change concerns some jobs directly; expected are these and all that follow from them in the graph of files.
"""

import json
import os
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch

import pytest
import yaml
from job_graph import following, planned, select, whole

from form_invariance.cli import command_modules
from form_invariance.stage_folders import ROOMS, part_of, stage_folders
from form_invariance.workflow.source_digest import modules_of

pytestmark = pytest.mark.slow

MODEL = "embedded-shared"


def pending(checkout):
    return {job.key for job in planned(checkout)}


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
def appended(path, text="\nCHANGED = True\n"):
    """A file with something at its end for a while."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before + text.encode())
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture(scope="module")
def jobs(finished):
    """Every job of the finished run."""
    return whole(finished)


@pytest.fixture
def time_stamps(finished):
    """The files' time stamps are put back after a test: without records, they are all that Snakemake has."""
    kept = {path: path.stat() for path in finished.rglob("*") if path.is_file()}
    yield
    for path, status in kept.items():
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def reword(config):
    config["formats"]["word"]["templates"]["addition"] = "{a} plus {b} is "


def several(config):
    config.update(probe_prompts=99, permutations=300, heuristic_threshold=0.7)
    config["specificity_tasks"]["copying"]["templates"].update(word="{a} is ")
    config["formats"]["word"]["variants"]["addition"][0] = "{a} plus {b} is "


WORD, ADDITION = {"format": "word"}, {"operator": "addition"}
CIRCUIT = {"circuit": "circuit"}
CHANGES = {
    "a k": (
        lambda config: config["k"].append(30),
        [
            ("circuit", CIRCUIT),
            ("overlap operator_overlap transfer interventions specificity", {}),
        ],
    ),
    "uniform controls": (
        lambda config: config.update(random_seeds=4),
        [("interventions transfer", {})],
    ),
    "controls that change places": (
        lambda config: config.update(random_seeds=config["matched_seeds"], matched_seeds=config["random_seeds"]),
        [("interventions transfer specificity", {})],
    ),
    "several sizes, a task and a variant": (
        several,
        [("probe probe_across agreement heuristics specificity", {}), ("census", {"format": "word~1"} | ADDITION)],
    ),
    "a template": (reword, [("census", WORD | ADDITION), ("heuristics", ADDITION)]),
    "eval prompts": (
        lambda config: config.update(eval_prompts=config["eval_prompts"] - 1),
        [("preflight dataset", {})],
    ),
    "the seed": (lambda config: config.update(seed=1), [("census heuristic_null", {})]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_configuration(finished, jobs, change):
    edit, concerned = CHANGES[change]
    first = set().union(*(select(jobs, rules, **wanted) for rules, wanted in concerned))
    with configured(finished, edit):
        found = pending(finished)
    # The report contains the configuration.
    assert found == following(jobs, first) | {("report",)}


def test_an_operator_is_added(finished):
    with configured(finished, lambda config: config["operators"].update(subtraction="a - b")):
        every, found = whole(finished), pending(finished)
    new = {job for job in every if ("operator", "subtraction") in job.wildcards}
    assert found == following(every, new)
    kept = select(every, "census dataset patching ranking circuit overlap heuristic_null", operator="addition")
    assert not {job.key for job in kept} & found


def test_a_model_is_added(finished):
    with configured(
        finished, lambda config: config["models"].update(other={"source": "embedded:embedded-separate"})
    ):
        every, found = whole(finished), pending(finished)
    new = {job for job in every if ("model", "other") in job.wildcards}
    # Every browser links to the others.
    assert found == following(every, new | select(every, "browser paper_tables"))
    assert ("census", MODEL, "word", "addition") not in found


def test_every_setting_is_recorded_by_name(finished):
    """Snakemake compares a job's params as a set: two that are values alone could change places unseen."""
    config = yaml.safe_load((finished / "config/config.yaml").read_text())
    values = {repr(value) for value in config.values() if isinstance(value, (int, float, str))}
    values |= {
        repr(value) for values in config.values() if isinstance(values, list) for value in [values, *values]
    }
    records = [
        json.loads(path.read_text()) for path in (finished / ".snakemake/metadata").rglob("*") if path.is_file()
    ]
    assert len(records) > 50
    assert not [record["rule"] for record in records if values & set(record["params"])]


@pytest.mark.parametrize(
    ("modules", "rules"),
    [
        ("drawing/style.py", "figure* summary_figure explainer"),
        (
            "experiment/intervene.py",
            "interventions specificity family_knockout neuron_effects transfer engine_check",
        ),
        # Each reaches few jobs, the last two none.
        (
            "stages/transfer/figure.py stages/dataset/preflight.py workflow/plan.py workflow/config_check.py",
            "figure:transfer* preflight",
        ),
        (
            "stages/transfer/answer.py browser/maps.js paper/numbers.csv explainer/page.html page/layout.css",
            "answers browser paper_tables explainer report",
        ),
    ],
)
def test_modules_are_edited(finished, jobs, modules, rules):
    with ExitStack() as edits:
        for module in modules.split():
            edits.enter_context(appended(finished / "src/form_invariance" / module))
        found = pending(finished)
    first = {job for job in jobs if any(fnmatch(name_of(job), pattern) for pattern in rules.split())}
    assert found == following(jobs, first)


def name_of(job):
    """A job's rule; of a figure with its name, as figure:NAME."""
    return ":".join([job.rule, *(value for key, value in job.wildcards if key == "figure")])


def modules_by_rule(jobs):
    """The modules that each rule's command reaches."""
    found = {}
    for job in {name_of(job): job for job in jobs if job.command}.values():
        command, *words = job.command
        more = [part_of(words[0], "figure")] if command == "figure" else []
        if command == "answers":
            stages = words[words.index("--stages") + 1 : words.index("--tables")]
            more = [part_of(stage, "answer") for stage in stages]
        found[name_of(job)] = modules_of(command, *more)
    return found


def stage_of(module):
    parts = module.split(".")
    return parts[2] if len(parts) > 3 and parts[1] in ROOMS else None


# Stages that call the computation of an earlier stage though they do not read its tables.
CALLERS = {
    "heuristics": {"promoted_tokens"},
    "patching": {"engine_check"},
}


def test_a_stages_module_reaches_only_what_follows_from_the_stage(jobs):
    reached = modules_by_rule(jobs)
    homes = {
        name_of(job): job.command[1] if job.command[0] == "figure" else stage_of(command_modules()[job.command[0]])
        for job in jobs
        if job.command
    }
    for stage in stage_folders():
        own = {job for job in jobs if stage == homes.get(name_of(job))}
        keys = following(jobs, own)
        allowed = {name_of(job) for job in jobs if job.key in keys} | {"answers", "report"}
        reaching = {
            rule for rule, modules in reached.items() if any(stage_of(module) == stage for module in modules)
        }
        assert reaching - allowed == CALLERS.get(stage, set()), stage


def test_shared_modules_reach_no_stage(jobs):
    """What every stage reads (its options, the readers of tables) imports none of them."""
    for module in ("experiment.options", "tables.files", "tables.inputs", "experiment.answers", "drawing.style"):
        names = [name for name in modules_of("job-server", module) if stage_of(name)]
        assert not names, (module, names)


def test_a_models_file_is_changed(finished, jobs):
    path = finished / "src/form_invariance/embedded/models" / MODEL / "model.safetensors"
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    try:
        found = pending(finished)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert found == following(jobs, select(jobs, "model_files"))


DELETED = {
    f"{MODEL}/word/addition/attribution.parquet": ("attribution", WORD | ADDITION),
    f"{MODEL}/shared/addition/overlap.parquet": ("overlap", ADDITION),
    f"{MODEL}/word/probe.parquet": ("probe", WORD),
    f"figures/{MODEL}/overlap.svg": ("figure", {"figure": "overlap"}),
}


def test_outputs_are_deleted(finished, jobs):
    paths = [finished / "results" / output for output in DELETED]
    kept = {path: (path.read_bytes(), path.stat()) for path in paths}
    for path in paths:
        path.unlink()
    found = pending(finished)
    for path, (content, status) in kept.items():
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    first = set().union(*(select(jobs, rule, **wanted) for rule, wanted in DELETED.values()))
    assert found == following(jobs, first)


def test_time_stamps_and_documents_rerun_nothing(finished, time_stamps):
    for pattern in ("src/**/*.*", "workflow/**/*.*", "config/*", "results/**/*.parquet"):
        paths = [*finished.glob(pattern)]
        assert paths
        for path in paths:
            path.touch()
    with ExitStack() as edits:
        for name in ("README.md", "config/README.md", "docs/method.md"):
            path = finished / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
            edits.enter_context(appended(path))
        assert pending(finished) == set()
