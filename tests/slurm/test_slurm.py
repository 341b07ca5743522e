"""The workflow on a real SLURM: the tables of a local run, one GPU a job, and what becomes of jobs that die."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cluster
import pandas as pd
import pytest
import yaml
from stub_checkout import ROOT, environment, make_checkout, noted_calls, pending, snakemake

from form_invariance.workflow import job_server

pytestmark = pytest.mark.skipif(cluster.missing() is not None, reason=str(cluster.missing()))

QUICK = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5"]
SNAKEMAKE = f"""#!{sys.executable}
import snakemake.cli
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor as Executor
Executor.next_seconds_between_status_checks = property(lambda self: 2, lambda self, seconds: None)
snakemake.cli.main()"""
"""Snakemake whose plugin asks for the status every 2 seconds: it would wait 10 more after every check."""
TABLE_RULES = "report explainer model_files browser dataset preflight ranking circuit overlap answers agreement "
TABLE_RULES += "paper_tables contrasts summary heuristic_null heuristics labelled_neurons figure"
"""Words in the names of rules that run no model."""
GROUPS = {
    "overlaps_embedded-shared_addition": ("4000M", "00:33:00"),
    "verdicts_embedded-shared": ("4000M", "00:10:00"),
    "figures_embedded-shared": ("1000M", "00:09:00"),
}
"""Memory and time of groups: a circuit and an overlap; the contrasts; three figures."""
SHARED = "results/embedded-shared/shared"
TARGETS = [
    *(f"results/figures/embedded-shared/{name}.svg" for name in ("overlap", "knockout", "transfer")),
    f"{SHARED}/contrasts.parquet",
]
"""Jobs of every kind: with and without a model, of one cell and of all, groups of tables and of figures."""
ALONE = {job_server.ADDRESS: ""}
"""Stubs need no server, which would import the libraries for every job."""
RANKINGS = ["--until", "patching", "preflight"]
HUNGRY, SLOW = (f"results/embedded-shared/{name}/addition/census.parquet" for name in ("symbolic", "word"))


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    cluster.up(folder)
    yield folder
    cluster.down(folder)


@pytest.fixture
def home(tmp_path):
    """A configuration folder of the user's, in which there is no profile."""
    return tmp_path / "config"


@pytest.fixture(scope="module", autouse=True)
def troubled(slurm, tmp_path_factory):
    """A run with a job that takes too much memory and one that takes too long; others are tested meanwhile."""
    folder = tmp_path_factory.mktemp("troubled")
    checkout = prepare(folder / "checkout", stub=True)
    profile = checkout / "workflow/profiles/slurm/config.yaml"
    profile.write_text(
        profile.read_text().replace("  - census=census_{model}\n", "").replace("  - census_{model}=4\n", "")
    )
    (checkout / "hungry").write_text(f"{HUNGRY} 4500")
    (checkout / "slow").write_text(SLOW)
    time_limit = "census:runtime=1 if attempt == 1 and wildcards.format == 'word' else 30"
    run = start(checkout, folder / "home", HUNGRY, SLOW, "--set-resources", time_limit, **ALONE)
    yield run, checkout
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)


@pytest.fixture(scope="module", autouse=True)
def experiment(slurm, tmp_path_factory):
    """A run of the experiment, watched while others are tested: its checkout, its jobs, how many ran at once."""
    folder = tmp_path_factory.mktemp("experiment")
    checkout = prepare(folder / "checkout", stub=False)
    cancelled, at_once = [], []

    def cancel_the_first_census(jobs) -> bool:
        at_once.append(sum(job["JobState"] == "RUNNING" and "TresPerJob" in job for job in jobs.values()))
        for number, job in jobs.items():
            if job["JobState"] == "RUNNING" and "census" in job["rule"] and not cancelled:
                subprocess.run(["scancel", number], check=True)
                cancelled.append(number)
        return False

    run = start(checkout, folder / "home", *TARGETS)
    with ThreadPoolExecutor(1) as pool:
        yield checkout, pool.submit(watch, run, checkout, 3000, cancel_the_first_census), cancelled, at_once
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)


def prepare(folder: Path, *, stub: bool) -> Path:
    """A checkout with a small grid and the test cluster's partitions."""
    checkout = make_checkout(folder, stub=stub)
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    config |= yaml.safe_load((ROOT / "config/test.yaml").read_text())
    config |= {"operators": {"addition": "a + b"}, "variant_operators": []}
    del config["formats"]["code"]
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    shutil.copy(ROOT / "Makefile", checkout)
    quick = checkout / ".venv/bin/snakemake"
    quick.parent.mkdir(parents=True)
    quick.write_text(SNAKEMAKE)
    quick.chmod(0o755)
    (checkout / "config/cluster.yaml").write_text("cpu: {slurm_partition: cpu}\ngpu: {slurm_partition: gpu}\n")
    return checkout


def start(checkout: Path, home: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """Start `snakemake --profile slurm` in a process group of its own; what it prints goes to run.log."""
    with (checkout / "run.log").open("a") as log:
        return subprocess.Popen(
            [checkout / ".venv/bin/snakemake", "--profile", "slurm", *QUICK, *words],
            cwd=checkout,
            env=environment(checkout, home) | more,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def submitted(checkout: Path) -> dict[str, dict[str, str]]:
    """Every job of a checkout that SLURM still knows, with its rule."""
    out = subprocess.run(["scontrol", "--oneliner", "show", "job"], capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if fields.get("WorkDir") == str(checkout):
            fields["rule"] = re.sub(r"^(rule|group)_", "", fields.get("Comment", "")).split("_wildcards_")[0]
            found[fields["JobId"]] = fields
    return found


def watch(run: subprocess.Popen[str], checkout: Path, seconds: float, stop=lambda jobs: False) -> dict | None:
    """The submitted jobs when the run has ended; None as soon as `stop`, given those so far, says so."""
    jobs: dict[str, dict[str, str]] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended = run.poll() is not None
        jobs.update(submitted(checkout))
        if ended:
            assert run.returncode == 0, (checkout / "run.log").read_text()[-5000:]
            return jobs
        if stop(jobs):
            return None
        time.sleep(0.5)
    raise AssertionError("the run took too long")


def tables(checkout: Path) -> dict[str, pd.DataFrame]:
    paths = checkout.glob("results/**/*.parquet")
    return {str(path.relative_to(checkout)): pd.read_parquet(path) for path in paths}


def outputs(checkout: Path) -> dict[str, bytes]:
    """Everything that the rules made, by its path."""
    folder = checkout / "results/embedded-shared"
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "configuration.json"]
    return {str(path.relative_to(checkout)): path.read_bytes() for path in paths}


def runs_a_model(rules: str) -> bool:
    return not any(name in rules for name in TABLE_RULES.split())


def test_every_rule_that_runs_a_model_asks_for_a_gpu_and_no_other_does(tmp_path, home):
    status, out = snakemake(prepare(tmp_path / "checkout", stub=True), "--profile", "slurm", "-n", home=home)
    assert status == 0, out
    asked = dict(re.findall(r"^ *rule (\w+):$.*?^ +resources: (.*?)$", out, re.MULTILINE | re.DOTALL))
    del asked["default"]
    assert len(asked) > 30
    for rule, resources in asked.items():
        found = set(re.findall(r"slurm_partition=\w+|\bgpu=\d", resources))
        gpu = {"slurm_partition=gpu", "gpu=1"}
        assert found == (gpu if runs_a_model(rule) else {"slurm_partition=cpu"}), (rule, resources)


def test_a_killed_snakemake_is_resumed(tmp_path, home):
    local = prepare(tmp_path / "local", stub=True)
    assert snakemake(local, *RANKINGS)[0] == 0
    checkout = prepare(tmp_path / "checkout", stub=True)
    run = start(checkout, home, *RANKINGS, **ALONE)

    def some_are_done(jobs) -> bool:
        return "Finished jobid" in (checkout / "run.log").read_text() and len(outputs(checkout)) >= 4

    assert watch(run, checkout, 1500, some_are_done) is None
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    log = (checkout / "run.log").read_text()
    finished = set(re.findall(r"Finished jobid: (\d+)", log))
    before = noted_calls(checkout)
    assert finished
    words, env = ["make", "resume", f"ARGS={' '.join([*RANKINGS, *QUICK])}"], environment(checkout, home) | ALONE
    resumed = subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True, timeout=1800)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    after = noted_calls(checkout)[len(before) :]
    assert after
    repeated = [call for call in after if call in before]
    # Only jobs that ran, or had just ended, when Snakemake was killed are repeated.
    assert len(repeated) <= len(before) - len(finished)
    assert outputs(checkout) == outputs(local)
    assert pending(checkout, *RANKINGS) == {}


def test_too_little_memory_or_time_is_asked_for_again_with_more(troubled):
    run, checkout = troubled
    jobs = watch(run, checkout, 1500)
    asked: dict[str, list[tuple[str, str, str]]] = {"symbolic": [], "word": []}
    for number in sorted((number for number in jobs if jobs[number]["rule"] == "census"), key=int):
        job = jobs[number]
        name = "word" if "word" in job["Comment"] else "symbolic"
        asked[name].append((job["MinMemoryNode"], job["TimeLimit"], job["JobState"]))
    (little, _, _), (more, _, state) = asked["symbolic"]
    assert int(little.removesuffix("M")) < 4500 < int(more.removesuffix("M"))
    assert state == "COMPLETED"
    assert [entry[1:] for entry in asked["word"]] == [("00:01:00", "TIMEOUT"), ("00:30:00", "COMPLETED")]
    assert (checkout / HUNGRY).exists()
    assert (checkout / SLOW).exists()


def test_the_same_tables_as_on_one_machine_and_one_gpu_a_job(experiment, tmp_path, home):
    checkout, watched, cancelled, at_once = experiment
    local = prepare(tmp_path / "local", stub=False)
    served = [sys.executable, "-m", "form_invariance", "job-server", "snakemake", "--cores", "1", *TARGETS]
    subprocess.run(served, cwd=local, env=environment(local, home), check=True)
    jobs = watched.result()
    assert cancelled
    assert max(at_once) == cluster.GPUS
    for job in jobs.values():
        on_gpu = runs_a_model(job["rule"])
        assert job["Partition"] == ("gpu" if on_gpu else "cpu"), job
        assert job.get("TresPerJob") == ("gres:gpu:1" if on_gpu else None), job
        assert job["NumCPUs"] == "1", job
    named = {name: job for job in jobs.values() for name in GROUPS if job["rule"].startswith(name)}
    assert named.keys() == GROUPS.keys()
    # A group asks for what its largest member needs, and for the time of all of them.
    asked = {name: (job["MinMemoryNode"], job["TimeLimit"]) for name, job in named.items()}
    assert asked == GROUPS
    expected, found = tables(local), tables(checkout)
    assert len(expected) > 20
    assert expected.keys() == found.keys()
    for name, table in expected.items():
        pd.testing.assert_frame_equal(table, found[name], obj=name)
    assert "Nothing to be done" in snakemake(checkout, "-n", *TARGETS)[1]
