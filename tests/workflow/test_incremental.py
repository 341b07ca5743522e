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
    "controls that change places": (
        lambda config: config.update(random_seeds=config["matched_seeds"], matched_seeds=config["random_seeds"]),
        [("interventions transfer specificity", {})],
    ),
    "several sizes, a task and a variant": (
        several,
        [
            ("probe probe_across agreement heuristics specificity transfer", {}),
            ("census", {"format": "word~1"} | ADDITION),
        ],
    ),
    "a template": (reword, [("census", WORD | ADDITION), ("heuristics", ADDITION)]),
    "a default written out, and the readout of patches": (
        lambda config: config["models"][MODEL].update(dtype="float32", readout="full"),
        [("patching", {})],
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
