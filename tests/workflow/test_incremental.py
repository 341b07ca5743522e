"""Which jobs, and which of their cells, each change of configuration, source or files runs again.

A change concerns some jobs directly; expected are these and all that follow from them in the graph of files.
"""

import json
import os
import re
from contextlib import ExitStack, contextmanager

import pytest
import yaml
from altered_source import altered
from stub_checkout import done, listed_jobs

pytestmark = pytest.mark.slow

MODEL = "embedded-shared"


def planned(checkout, *words):
    """Inputs and outputs of a dry run's jobs, by rule and wildcards, without the target rule's."""
    return {
        (rule, frozenset(named.items())): [{*fields.get(kind, "").split(", ")} for kind in ("input", "output")]
        for rule, fields, named in listed_jobs(done(checkout, "-n", *words))
        if rule != "default"
    }


def select(jobs, rules, **wanted):
    """The jobs of some rules, of one value of some wildcards (jobs without these wildcards are left out)."""
    names = rules.split()
    assert set(names) <= {rule for rule, _ in jobs}, names
    return {job for job in jobs if job[0] in names and wanted.items() <= job[1]}


def following(jobs, first):
    """Some jobs and all that read what they make, directly or not."""
    found, waiting = set(first), list(first)
    while waiting:
        _, made = jobs[waiting.pop()]
        more = {job for job, (inputs, _) in jobs.items() if job not in found and inputs & made}
        found |= more
        waiting += more
    return found


@contextmanager
def changed(path, change):
    """A file with another content for a while, under its old time stamps afterwards."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(change(before))
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def configured(checkout, change):
    def edit(content):
        config = yaml.safe_load(content)
        change(config)
        return yaml.safe_dump(config, sort_keys=False).encode()

    return changed(checkout / "config/config.yaml", edit)


@pytest.fixture(scope="module")
def jobs(finished):
    return planned(finished, "--forceall")


def several(config):
    config.update(probe_prompts=99, permutations=300, heuristic_threshold=0.7)
    config["specificity_tasks"]["copying"]["templates"].update(word="{a} is ")
    config["formats"]["word"]["variants"]["addition"][0] = "{a} plus {b} is "


WORD, VARIANT, ADDITION = {"format": "word"}, {"format": "word~1"}, {"operator": "addition"}
ABLATING, COPYING = "interventions transfer dose specificity", "residual_exchange"
OF_K = [("circuit overlap operator_overlap transfer interventions contrasts", {})]
CHANGES = {
    "a k": (lambda config: config["k"].append(30), OF_K),
    "a k less": (lambda config: config["k"].pop(0), OF_K),
    "controls that change places": (
        lambda config: config.update(random_seeds=config["matched_seeds"], matched_seeds=config["random_seeds"]),
        [(ABLATING, {})],
    ),
    "several sizes, a task and a variant": (
        several,
        [
            (f"probe probe_across arrival_probes agreement heuristics specificity transfer {COPYING}", {}),
            ("census", VARIANT | ADDITION),
        ],
    ),
    "a template": (
        lambda config: config["formats"]["word"]["templates"].update(addition="{a} plus {b} is "),
        [("census", WORD | ADDITION), ("activation_maps", ADDITION)],
    ),
    "what ranks the neurons": (
        lambda config: config.update(ranking="probability"),
        [("attribution patching precision", {})],
    ),
    "a default written out, and the readout of patches": (
        lambda config: config["models"][MODEL].update(device="auto", readout="full"),
        [("patching precision", {})],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_configuration_runs_what_follows_from_it(finished, jobs, change):
    edit, concerned = CHANGES[change]
    first = set().union(*(select(jobs, rules, **wanted) for rules, wanted in concerned))
    with configured(finished, edit):
        found = planned(finished).keys()
    # The report contains the configuration.
    assert found == following(jobs, first) | {("report", frozenset())}


def test_whatever_is_made_is_read_and_the_report_waits_for_it(jobs):
    read = set().union(*(inputs for inputs, _ in jobs.values()))
    unread = {path.rpartition("/")[2] for _, made in jobs.values() for path in made - read}
    # The job of each of these also makes a file that is read.
    by_products = {"ranking.parquet", "tokenizer.json"}
    assert unread == by_products | {"report.html"}
    for job in jobs:
        assert ("report", frozenset()) in following(jobs, {job}), job


def test_an_operator_that_asks_a_digit_is_explained_by_its_maps(checkout):
    planned_jobs = planned(checkout, "--configfile", "config/digits.yaml")
    (inputs, _) = planned_jobs["explainer", frozenset()]
    assert len([path for path in inputs if path.endswith("activation_maps.safetensors")]) == 3


def test_a_new_model_runs_no_census_of_another(finished):
    other = {"source": "embedded:embedded-separate"}
    with configured(finished, lambda config: config["models"].update(other=other)):
        every, found = planned(finished, "--forceall"), planned(finished).keys()
    new = {job for job in every if ("model", "other") in job[1]}
    # Every browser links to the others.
    assert found == following(every, new | select(every, "browser paper_tables"))
    assert not found & select(every, "census", model=MODEL)


def test_a_new_operator_keeps_the_rankings_of_the_others(finished, jobs):
    with configured(finished, lambda config: config["operators"].update(subtraction="a - b")):
        every, found = planned(finished, "--forceall"), planned(finished).keys()
    new = {job for job in every if ("operator", "subtraction") in job[1]}
    # The means of a format are over all operators, so every cell is ablated again. Rankings are kept.
    first = select(every, "mean_cache probe operator_overlap preflight")
    assert found == following(every, new | first | select(every, "report"))
    kept = "census dataset attribution patching circuit overlap"
    assert not (found - new) & select(every, kept)


def test_every_setting_is_recorded_by_name(finished):
    """Snakemake compares a job's params as a set: two that are values alone could change places unseen."""
    config = yaml.safe_load((finished / "config/config.yaml").read_text())
    plain = [value for value in config.values() if not isinstance(value, dict)]
    values = {repr(one) for value in plain for one in (value, *(value if isinstance(value, list) else ()))}
    metadata = (finished / ".snakemake/metadata").rglob("*")
    records = [json.loads(path.read_text()) for path in metadata if path.is_file()]
    assert len(records) > 50
    assert not [record["rule"] for record in records if values & set(record["params"])]


FIRST = {
    "drawing.style.COLOURS": {"figure", "summary_figure", "explainer"},
    "drawing.neuron_sets.NEURON_SETS": {"figure:keep_only", "figure:knockout"},
    "experiment.controls.NEAREST": {"dose", "interventions", "labelled_neurons", "specificity", "transfer"},
    "experiment.contrasts.engine.FEWEST": {"contrasts", "family_knockout", "residual_contrasts"},
    "experiment.intervene.intervene": {"dose", "interventions", "specificity", "neuron_effects"},
    "model.replay.replay": {"attribution", "patching", "precision", "head_exchange", "engine_check"},
    "problems.templates.fill": {"census"},
    "stages.census.table.CENSUS": {"census"},
    "stages.transfer.figure.transfer": {"figure:transfer", "figure:transfer_contrasts"},
    "stages.transfer.answer.answer": {"answers"},
    "report.page.render": {"report"},
    "explainer/page.html": {"explainer"},
    "page/layout.css": {"browser", "explainer", "report"},
    "workflow.plan.make": set(),
}
"""What runs again first after a change of a definition or file of the source: rules, or figures."""


def edit_of(checkout, name):
    """A context in which a definition or a file of the package has changed."""
    package = checkout / "src/form_invariance"
    if "/" in name:
        return changed(package / name, lambda content: content + b"\n")
    module, _, definition = name.rpartition(".")
    path = package / f"{module.replace('.', '/')}.py"
    return changed(path, lambda content: altered(content.decode(), definition).encode())


@pytest.mark.parametrize("name", FIRST)
def test_a_change_of_the_source_runs_what_follows_from_it(finished, jobs, name):
    with edit_of(finished, name):
        out = done(finished, "-n")
    found = {(rule, frozenset(named.items())) for rule, _, named in listed_jobs(out)} - {("default", frozenset())}
    names = {job: {job[0], ":".join([job[0], *dict(job[1]).get("figure", "").split()])} for job in jobs}
    first = {job for job, its in names.items() if its & FIRST[name]}
    assert found == following(jobs, first)
    # The run says what changed, except for jobs that run again because of others' files.
    said = re.findall(r"^code: (.*): (.*)$", out, re.MULTILINE)
    assert {what for _, what in said} == ({name} if first else set())
    rules = {rule.partition(":")[0] for rule in FIRST[name]}
    assert {rule for of, _ in said for rule in of.split(", ")} <= rules


def test_time_stamps_and_documents_rerun_nothing(finished):
    with ExitStack() as edits:
        # They are put back: without records, time stamps are all that Snakemake has.
        for path, status in [(path, path.stat()) for path in finished.rglob("*") if path.is_file()]:
            edits.callback(os.utime, path, ns=(status.st_atime_ns, status.st_mtime_ns))
        for pattern in ("src/**/*.*", "workflow/**/*.*", "config/*", "results/**/*.parquet"):
            paths = [*finished.glob(pattern)]
            assert paths
            for path in paths:
                path.touch()
        for name in ("README.md", "config/README.md", "docs/method.md"):
            path = finished / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
            edits.enter_context(changed(path, lambda content: content + b"\nCHANGED = True\n"))
        assert planned(finished) == {}
