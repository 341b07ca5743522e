"""The graph: what a dry run lists, what re-runs after which change, and what a user sees after a mistake."""

import base64
import json
import re
import shutil
from collections import Counter
from itertools import product
from types import SimpleNamespace

import kept
import pytest
import yaml
from package_imports import imported_by, modules_of
from stub_checkout import ROOT, done, listed_jobs, make_checkout, noted_calls, pending, snakemake

from form_invariance.cli import command_line
from form_invariance.experiment.options import recorded
from form_invariance.problems.configured import copies
from form_invariance.workflow import source_digest
from form_invariance.workflow.job_costs import OPERATIONS

pytestmark = pytest.mark.slow

MODELS = ("embedded-shared", "embedded-separate")
GRID = {
    "model": set(MODELS),
    "format": {"symbolic", "code", "word"},
    "operator": {"addition", "subtraction", "multiplication", "division"},
}


def test_the_code_and_the_environment_of_a_rule_are_those_of_its_command():
    commands = r"python -m form_invariance ([\w-]+)"
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        code = path.read_text()
        asked = re.findall(commands, code)
        assert re.findall(r"source_digest\(\s*\"([\w-]+)", code) == asked, path
        assert not re.search(r'source_digest\("(figure|answers)"\)', code), "these import a stage's module by name"
        assert "ancient(" not in code, "what is made anew is read anew"
        assert not re.search(r"\{(input|output|params|log)[^}]*(?<!:q)\}", code), "a shell would act on it"
        for command, environment in zip(asked, re.findall(r"envs/(\w+)\.yaml", code), strict=True):
            read = (imported_by(source_digest.file_of(module)) for module in modules_of(command))
            needed = {name.partition(".")[0] for names in read for name in names}
            drawn = "plot" if needed & {"matplotlib", "jinja2"} else "cpu"
            assert environment == ("gpu" if "torch" in needed else drawn), (path, command)


def test_a_rules_files_and_params_have_the_names_of_their_options():
    """The command's --output may have any name, or none."""
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        code = path.read_text()
        named = re.findall(r"--([\w-]+)[ =]\{(?:input|output|params)\.(\w+):q\}(?!/)", code)
        named = [(option.replace("-", "_"), name) for option, name in named if option != "output"]
        assert [option for option, _ in named] == [name for _, name in named], path
        assert {*re.findall(r"--([\w-]+) \{output:q\}", code)} <= {"output"}, path


def test_default_dry_run_lists_every_cell(checkout):
    variants = {f"{name}~{number}" for name, number in product(GRID["format"], (1, 2))}
    found, every = {}, {}
    for rule, fields, wildcards in listed_jobs(done(checkout, "-n", "-p")):
        words = " ".join(fields.get(one, "") for one in ("input", "output", "log", "resources", "Shell command"))
        name = " ".join([rule, *wildcards.values(), kept.WORDS])
        every[name] = [word for word in words.split() if "tmpdir" not in word]
        found.setdefault(rule, []).append(wildcards)
    found.pop("figure")
    for rule, jobs in found.items():
        names = list(jobs[0])
        cells = {*product(*(GRID[name] for name in names))}
        if rule in ("census", "dataset", "attribution", "patching"):
            cells |= {*product(MODELS, variants, ["addition"])}
        assert sorted(tuple(job.values()) for job in jobs) == sorted(cells), rule
    assert not (checkout / "results").exists()
    kept.check("jobs", every)


def test_the_papers_models_are_planned_without_weights(checkout):
    jobs = [
        (named["model"], rule)
        for rule, _, named in listed_jobs(done(checkout, "-n", "--configfile", "config/paper.yaml"))
        if rule in OPERATIONS
    ]
    models = yaml.safe_load((ROOT / "config/paper.yaml").read_text())["models"]
    alone = [Counter(rule for model, rule in jobs if model == name) for name in models]
    assert alone[0]["census"] == alone[0]["patching"] == len(GRID["format"]) * len(GRID["operator"])
    assert alone == alone[:1] * len(models)
    assert len(jobs) == sum(map(Counter.total, alone))
    target = "results/paper/llama-3-8b/code/probe.parquet"
    out = done(checkout, target, "-n", "-p", "--configfile", "config/paper.yaml")
    revision = "8cde5ca8380496c9a6cc7ef3a8b46a0372a1d920"
    record = "results/paper/llama-3-8b/model_files.parquet"
    source = f"--model=meta-llama/Meta-Llama-3-8B --revision={revision}"
    assert f"{source} --dtype=float32 --device=cuda --model-files {record}" in out
    assert f"model-files {source} --dtype=float32 --model-name llama-3-8b --output {record}" in out


def parsed(checkout):
    """Each call as its command and the arguments that the command reads."""
    for command, *words in noted_calls(checkout):
        app = command_line([command])
        _, bound, _ = app.parse_args([command, *words], exit_on_error=False, print_error=False)
        yield command, SimpleNamespace(**recorded(bound.arguments))


RENAMED = {
    **{("census", "pairs"): "census_pairs", ("transfer", "pairs"): "transfer_pairs"},
    **{("mean-cache", "prompts"): "mean_cache_prompts", ("probe", "prompts"): "probe_prompts"},
    ("arrival-probes", "prompts"): "probe_prompts",
    **{("specificity", "prompts"): "eval_prompts", ("family-knockout", "prompts"): "eval_prompts"},
    **{("precision", "prompts"): "precision_prompts", ("dataset", "train"): "train_prompts"},
    **{("dataset", "eval"): "eval_prompts", ("heuristics", "threshold"): "heuristic_threshold"},
    **{
        (name, "max_operand"): "heuristic_max_operand"
        for name in ("heuristics", "heuristic-null", "family-knockout")
    },
}
"""Options, by command and name, that are not named as their key of the configuration."""


def test_every_command_takes_its_rules_options_and_is_asked_what_the_configuration_says(finished):
    """A wrong option is an error as it is parsed."""
    config, seen = yaml.safe_load((finished / "config/config.yaml").read_text()), set()
    (model,) = config["models"].values()
    assert len(noted_calls(finished)) > 90
    for command, given in parsed(finished):
        for name, value in vars(given).items():
            key = RENAMED.get((command, name), name)
            if key in config and key not in ("models", "formats"):
                seen.add((command, name))
                wanted = [config[key]]
                if name == "k" and not isinstance(value, list):
                    wanted = [config["k_shown"]]
                elif name == "k" and command == "circuit":
                    wanted.append([config["k_shown"]])
                elif name == "k" and command in ("dose", "specificity"):
                    wanted = [{"dose": config["best_k"], "specificity": [config["k_shown"]]}[command]]
                assert value in wanted, (command, name)
        if getattr(given, "model", "").startswith("embedded:") and command != "model-files":
            assert (given.model, given.dtype) == (model["source"], model["dtype"]), command
        if command in ("specificity", "transfer", "residual-exchange"):
            every = command == "specificity"
            tasks = {name for name, task in config["specificity_tasks"].items() if every or copies(task)}
            assert json.loads(given.tasks).keys() == tasks
    assert RENAMED.keys() <= seen


EVIL = {
    "symbolic": 'it\'s "$(touch pwned)" ; `touch pwned` & é\nx *?[a] ~ a=b $HOME | > pwned #',
    "code": "-h",
    "word": "--seed=7",
}


def test_hostile_values_reach_the_commands_as_they_are(tmp_path):
    """Each value names a model's folder and is part of a template."""
    checkout = make_checkout(tmp_path / "checkout")
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    config |= yaml.safe_load((ROOT / "config/test.yaml").read_text())
    config["operands"] |= {"operand_max": 99, "answer_max": 99}
    config["models"], templates = {}, {}
    for name, evil in EVIL.items():
        shutil.copytree(ROOT / "src/form_invariance/embedded/models/embedded-shared", checkout / evil)
        config["models"][f"of-{name}"] = {"source": evil, "device": "cuda:1"}
        templates[name] = config["formats"][name]["templates"]["addition"] = f"{evil} {{a}}+{{b}}="
    config["operators"]["addition"] = "-0 + a + b"
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config))
    targets = [f"results/of-{name}/{name}/addition/census.parquet" for name in EVIL]
    done(checkout, *targets)
    calls = list(parsed(checkout))
    assert {command for command, _ in calls} == {"model-files", "census"}
    found = {one.model: (one.device, one.template) for command, one in calls if command == "census"}
    assert found == {evil: ("cuda:1", templates[name]) for name, evil in EVIL.items()}
    assert {one.expression for command, one in calls if command == "census"} == {"-0 + a + b"}
    assert not list(tmp_path.rglob("pwned*"))


def test_what_a_kill_left_unfinished_is_made_again(finished):
    begun = b"results/embedded-shared/code/addition/dataset.parquet"
    mark = finished / ".snakemake/incomplete" / base64.urlsafe_b64encode(begun).decode()
    mark.touch()
    try:
        assert pending(finished)["dataset"] == 1
    finally:
        mark.unlink()


def test_a_mistake_found_by_a_job_is_on_the_terminal(checkout):
    target = "results/embedded-shared/word/division/dataset.parquet"
    (checkout / "fail").write_text("dataset")
    try:
        status, out = snakemake(checkout, target)
    finally:
        (checkout / "fail").unlink()
    assert status != 0
    assert "\nerror: census.parquet has no correct rows; choose another model\n" in out
    assert not (checkout / target).exists()
    shutil.rmtree(checkout / "results")


def test_a_mistake_in_the_configuration_is_one_sentence(checkout):
    (checkout / "mine.yaml").write_text("sede: 1")
    status, out = snakemake(checkout, "--configfile", "mine.yaml")
    (line,) = (line for line in out.splitlines() if not line.startswith("Using workflow specific profile"))
    assert status != 0
    assert re.match("error: .*'sede'.*'seed'", line)
    assert not (checkout / "results").exists()


def test_results_that_cannot_be_written_are_one_sentence(checkout):
    (checkout / "mine").symlink_to("a disk that is not mounted")
    status, out = snakemake(checkout, "--config", "results=mine")
    assert status != 0
    assert re.search(
        r"\nerror: mine/embedded-\w+/configuration.json cannot be written: [^\n]*; fix this[^\n]*\n?$", out
    )
    (checkout / "mine").unlink()


def test_environments_pin_what_the_lock_pins():
    lines = [line.split() for line in (ROOT / "requirements.lock").read_text().splitlines()]
    lock = {line[0] for line in lines if line and "==" in line[0]}
    for path in sorted((ROOT / "envs").glob("*.yaml")):
        listed = yaml.safe_load(path.read_text())["dependencies"]
        (pins,) = (item["pip"] for item in listed if isinstance(item, dict))
        assert {pin.lower().replace("_", "-") for pin in pins} <= lock, path
