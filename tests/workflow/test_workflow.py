"""The graph: what a dry run lists, what re-runs after which change, and what a user sees after a mistake."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain, product
from types import SimpleNamespace

import pytest
import yaml
from stub_checkout import ROOT, job_counts, make_checkout, pending, snakemake

from form_invariance.cli import command_line, command_modules
from form_invariance.experiment.options import recorded
from form_invariance.workflow import source_digest
from form_invariance.workflow.job_costs import OPERATIONS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("clean") / "checkout")


@pytest.fixture(scope="module")
def planned(clean):
    """What a dry run of the default configuration prints."""
    status, out = snakemake(clean, "-n")
    assert status == 0, out
    return out


def wildcards_by_rule(out):
    """The wildcards of every job that a dry run lists, by rule."""
    parts = re.split(r"^(?:local)?rule (\w+):$", out, flags=re.MULTILINE)[1:]
    found = {}
    for rule, text in zip(parts[::2], parts[1::2], strict=True):
        line = re.search(r"^    wildcards: (.*)$", text, re.MULTILINE)
        values = dict(item.split("=") for item in line[1].split(", ")) if line else {}
        found.setdefault(rule, []).append(values)
    return found


MODELS = ("embedded-shared", "embedded-separate")
GRID = {
    "model": set(MODELS),
    "format": {"symbolic", "code", "word"},
    "operator": {"addition", "subtraction", "multiplication", "division"},
    "circuit": {"circuit", "classified_circuit"},
}


def test_default_dry_run_lists_every_cell(clean, planned):
    variants = {f"{name}~{number}" for name, number in product(GRID["format"], (1, 2))}
    found = wildcards_by_rule(planned)
    figures = {job["figure"] for job in found.pop("figure")}
    assert {"overlap", "keep_only", "knockout", "exchange", "transfer"} <= figures
    for rule, jobs in found.items():
        names = list(jobs[0])
        cells = {*product(*(GRID[name] for name in names))}
        if rule in ("census", "dataset", "attribution", "patching"):
            cells |= {*product(MODELS, variants, ["addition"])}
        assert sorted(tuple(job.values()) for job in jobs) == sorted(cells), rule
    assert {"census", "patching", "transfer", "summary_figure", "answers", "report"} <= set(found)
    assert not any(rule.startswith("train") for rule in found)
    assert not (clean / "results").exists()


def test_the_root_and_the_workflow_folder_plan_the_same(clean, planned):
    whole = job_counts(planned)
    inside = pending(clean, "-s", "workflow/Snakefile")
    assert len(whole) > 30
    assert whole == {"default" if rule == "all" else rule: n for rule, n in inside.items()}


def test_small_grid_and_targets(clean):
    jobs = pending(clean, "--configfile", "config/test.yaml")
    assert (jobs["census"], jobs["transfer"], jobs["report"]) == (6 + 6, 2, 1)
    stages = pending(clean, "rankings_all", "--configfile", "config/test.yaml")
    assert set(stages) == {
        *("model_files", "census", "preflight", "dataset", "attribution", "patching", "ranking", "rankings_all")
    }
    verdicts = pending(clean, "verdicts", "--configfile", "config/test.yaml")
    assert verdicts["summary"] == 1
    others = ("heuristics", "family_knockout", "neuron_effects", "agreement", "engine_check", "browser", "report")
    assert not verdicts.keys() & set(others)


def test_the_papers_models_are_planned_without_weights(clean):
    jobs = pending(clean, "--configfile", "config/paper.yaml")
    assert jobs["census"] == jobs["patching"] == 3 * 18
    assert sum(jobs.get(rule, 0) for rule in OPERATIONS) == 3 * 105
    target = "results/paper/llama-3-8b/code/probe.parquet"
    status, out = snakemake(clean, target, "-n", "-p", "--configfile", "config/paper.yaml")
    assert status == 0
    revision = "8cde5ca8380496c9a6cc7ef3a8b46a0372a1d920"
    record = "results/paper/llama-3-8b/model_files.parquet"
    source = f"--model=meta-llama/Meta-Llama-3-8B --revision={revision}"
    assert f"{source} --device=cuda --model-files {record}" in out
    assert f"model-files {source} --model-name llama-3-8b --dtype=float32 --output {record}" in out


def of_one_model(checkout, device):
    """The options of a run in which only the device of the model's jobs matters."""
    source = f"{{source: 'embedded:embedded-shared', device: {device}}}"
    (checkout / "mine.yaml").write_text(f"models: {{mine: {source}}}\noperators: {{addition: a + b}}\n")
    return "census_all", "--forceall", "--cores", "3", "--configfile", "mine.yaml"


@pytest.mark.parametrize("gpu_here", [True, False])
def test_jobs_share_a_machine_but_not_its_gpu(tmp_path, gpu_here):
    """The commands fail where two run at once."""
    checkout = make_checkout(tmp_path / "checkout")
    module = checkout / "src/form_invariance/workflow/job_sizes.py"
    module.write_text(module.read_text() + f"\n\ndef has_gpu() -> bool:\n    return {gpu_here}\n")
    (checkout / "alone").touch()
    status, out = snakemake(checkout, *of_one_model(checkout, "auto"))
    assert (status == 0) == gpu_here, out


@pytest.mark.parametrize(("device", "gpus"), [("cuda", "1"), ("cpu", "0")])
def test_a_device_that_is_named_is_one_though_none_is_found(clean, device, gpus):
    _, out = snakemake(clean, "-n", *of_one_model(clean, device))
    resources = re.findall(r"^rule census:$.*?^    resources: (.*?)$", out, re.MULTILINE | re.DOTALL)
    assert [re.search(r"gpu=(\d)", one)[1] for one in resources] == [gpus] * 3, out


def parsed(checkout):
    """Each call as its command and the arguments that the command reads."""
    for line in (checkout / "calls.jsonl").read_text().splitlines():
        command, *words = json.loads(line)
        app = command_line([command])
        _, bound, _ = app.parse_args([command, *words], exit_on_error=False, print_error=False)
        yield command, SimpleNamespace(**recorded(bound.arguments))


def test_every_command_that_the_rules_call_takes_their_options(finished):
    calls = (finished / "calls.jsonl").read_text().splitlines()
    assert len(list(parsed(finished))) == len(calls) > 90


EVIL = {
    "symbolic": 'it\'s "$(touch pwned)" ; `touch pwned` & é\nx *?[a] ~ a=b $HOME | > pwned #',
    "code": "-h",
    "word": "--seed=7",
}


def test_hostile_values_reach_the_commands_as_they_are(tmp_path):
    """Names of a model's folder, each also in a template."""
    checkout = make_checkout(tmp_path / "checkout")
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    config |= yaml.safe_load((ROOT / "config/test.yaml").read_text())
    config["models"], templates = {}, {}
    for name, evil in EVIL.items():
        shutil.copytree(ROOT / "src/form_invariance/embedded/models/embedded-shared", checkout / evil)
        config["models"][f"of-{name}"] = {"source": evil, "device": "cuda:1"}
        templates[name] = config["formats"][name]["templates"]["addition"] = f"{evil} {{a}}+{{b}}="
    config["operators"]["addition"] = "-0 + a + b"
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config))
    targets = [f"results/of-{name}/{name}/addition/census.parquet" for name in EVIL]
    status, out = snakemake(checkout, *targets)
    assert status == 0, out
    calls = list(parsed(checkout))
    assert {command for command, _ in calls} == {"model-files", "census"}
    assert {one.model for _, one in calls} == {*EVIL.values()}
    censuses = {one.model: one for command, one in calls if command == "census"}
    for name, evil in EVIL.items():
        census = censuses[evil]
        assert (census.device, census.template) == ("cuda:1", templates[name])
        assert census.expression == "-0 + a + b"
    assert not list(tmp_path.rglob("pwned*"))


def test_mean_cache_leaves_out_the_pairs_of_every_format(finished):
    calls = [json.loads(line) for line in (finished / "calls.jsonl").read_text().splitlines()]
    output = "results/embedded-shared/code/mean_cache.safetensors"
    (call,) = (call for call in calls if call[0] == "mean-cache" and output in call)
    excluded = call[call.index("--exclude") + 1 : call.index("--seed")]
    assert excluded == [
        f"results/embedded-shared/{name}/{operator}/dataset.parquet"
        for name in ("symbolic", "code", "word")
        for operator in ("addition", "multiplication")
    ]


@pytest.mark.nightly
def test_a_lower_precision_is_measured(clean):
    (clean / "mine.yaml").write_text("models: {mine: {source: 'embedded:embedded-shared', dtype: bfloat16}}")
    target = "results/mine/code/addition/precision.parquet"
    _, out = snakemake(clean, "-n", "-p", "--configfile", "mine.yaml")
    assert job_counts(out)["precision"] == 12
    assert re.search(
        r"precision --model=embedded:embedded-shared .* --dtype=bfloat16 .* --output .*" + target, out
    )
    without = pending(clean, "--configfile", "mine.yaml", "--config", "precision_prompts=0")
    assert "precision" not in without
    assert without["report"] == 1


@pytest.mark.nightly
def test_variants_are_ranked_only_if_they_are_asked_for(clean, planned):
    everything, without = job_counts(planned), pending(clean, "--config", "variant_operators=[]")
    assert {rule: n - without[rule] for rule, n in everything.items() if n > without[rule]} == dict.fromkeys(
        ("census", "dataset", "attribution", "patching"), 2 * 6
    )
    target = "results/embedded-shared/code~2/addition/dataset.parquet"
    assert pending(clean, target)["census"] == 1
    assert pending(clean, target, "--config", "corrupt=across_operators")["census"] == 4


def test_a_mistake_found_by_a_job_is_on_the_terminal(clean):
    target = "results/embedded-shared/word/division/dataset.parquet"
    (clean / "fail").write_text("dataset")
    try:
        status, out = snakemake(clean, target)
    finally:
        (clean / "fail").unlink()
    assert status != 0
    assert "\nerror: census.parquet has no correct rows; choose another model\n" in out
    assert not (clean / target).exists()
    shutil.rmtree(clean / "results")


def test_a_mistake_in_the_configuration_is_one_sentence(clean):
    (clean / "mine.yaml").write_text("sede: 1")
    status, out = snakemake(clean, "--configfile", "mine.yaml")
    (line,) = (line for line in out.splitlines() if not line.startswith("Using workflow specific profile"))
    assert status != 0
    assert line.startswith("error: ")
    assert "'sede'" in line
    assert "'seed'" in line
    assert not (clean / "results").exists()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package for the digests to look at, and to change."""
    copy = tmp_path / "form_invariance"
    shutil.copytree(ROOT / "src/form_invariance", copy, ignore=shutil.ignore_patterns("*.safetensors"))
    monkeypatch.setattr(source_digest, "_ROOT", copy)
    forget()
    yield copy
    forget()


def forget():
    """The digests look at the files once more."""
    for function in (source_digest.imports_of, source_digest.file_of, source_digest.code_of, source_digest._tree):
        function.cache_clear()


def test_digest_follows_lazy_imports_and_no_others(package):
    commands = ["interventions", "ranking", "overlap", "census", "figure"]
    before = {command: source_digest.source_digest(command) for command in commands}
    with (package / "experiment/ablation.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    forget()
    changed = {command for command in commands if source_digest.source_digest(command) != before[command]}
    assert changed == {"interventions"}
    assert "form_invariance.tables.files" in source_digest.modules_of("ranking")  # imported inside run
    assert "form_invariance.errors" in source_digest.modules_of("ranking")  # imported by what it imports


def test_statements_hold_all_imports_of_the_package():
    for path in (ROOT / "src/form_invariance").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        # Blocks for types alone never run.
        body = ast.parse(re.sub(r"^if TYPE_CHECKING:\n(?:(?:    .*)?\n)+", "", text, flags=re.MULTILINE)).body
        every, found = (
            [ast.dump(node) for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
            for nodes in (
                chain.from_iterable(map(ast.walk, body)),
                source_digest._statements(ast.parse(text).body),
            )
        )
        assert sorted(every) == sorted(found), path


def test_a_changed_column_concerns_who_writes_and_reads_the_table(package):
    commands = list(command_modules())
    before = {command: source_digest.source_digest(command) for command in commands}
    transfer = package / "stages/transfer/table.py"
    transfer.write_text(transfer.read_text().replace("equal answer", "the same answer"))
    forget()
    changed = {command for command in commands if source_digest.source_digest(command) != before[command]}
    assert changed == {"transfer", "transfer-contrasts", "summary"}


def test_digest_is_of_code_and_not_of_text(package):
    """A comment, a docstring or another layout changes no result; a constant or a file of data may."""
    path = package / "stages/patching/ranking.py"
    before, text = source_digest.source_digest("ranking"), path.read_text()
    path.touch()
    forget()
    assert source_digest.source_digest("ranking") == before
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node):
            node.body[0].value.value = "Another docstring."
    for same in (f"# A comment.\n{text}", ast.unparse(tree), text.replace("\n\n\n", "\n\n\n\n")):
        assert same != text
        path.write_text(same)
        forget()
        assert source_digest.source_digest("ranking") == before
    for other in (
        f"{text}\nCHANGED = 1\n",
        text.replace("ddof=1", "ddof=0"),
        text.replace('"rank"', '"ranks"', 1),
    ):
        assert other != text
        path.write_text(other)
        forget()
        assert source_digest.source_digest("ranking") != before


def locked():
    """The lock's pins, each with the hashes that an install checks."""
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {pin: hashes for pin, *hashes in lines}


def test_environments_pin_what_the_lock_pins():
    lock = set(locked())
    for path in sorted((ROOT / "envs").glob("*.yaml")):
        (pins,) = (
            item["pip"] for item in yaml.safe_load(path.read_text())["dependencies"] if isinstance(item, dict)
        )
        assert {pin.lower().replace("_", "-") for pin in pins} <= lock, path


def jobs_of_environment(*names):
    """The commands of the rules whose jobs run in some of the environments."""
    rules = "".join(path.read_text() for path in sorted(ROOT.glob("workflow/rules/*.smk")))
    blocks = re.split(r"^ *rule(?: \w+)?:$", rules, flags=re.MULTILINE)[1:]
    chosen = "".join(block for block in blocks if any(f'"../../envs/{name}.yaml"' in block for name in names))
    return sorted({*re.findall(r"python -m form_invariance ([\w-]+)", chosen)})


@pytest.mark.parametrize(("names", "without"), [(["cpu", "plot"], "torch"), (["cpu"], "matplotlib")])
def test_jobs_import_only_what_their_environment_has(names, without):
    commands = jobs_of_environment(*names)
    assert len(commands) > 5
    code = f"""
import ast, importlib, sys
from pathlib import Path
from form_invariance.cli import command_modules
class Missing:
    def find_spec(self, name, *_):
        if name.split(".")[0] == {without!r}:
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Missing())
for command in {commands!r}:
    module = importlib.import_module(command_modules()[command])
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module]
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError as error:
                sys.exit(f"{{command}}: {{name}}: {{error}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_lock_pins_versions_and_hashes():
    pins = locked()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", pin) for pin in pins)
    for pin, hashes in pins.items():
        assert hashes, pin
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), pin
    names = {re.split("==", line)[0].lower().replace("_", "-") for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for need in [*project["dependencies"], *extras["workflow"], *extras["gguf"], *extras["test"]]:
        assert re.match(r"[\w-]+", need)[0].lower().replace("_", "-") in names, need


@pytest.mark.parametrize(
    ("words", "folder", "run"),
    [
        ("all --configfile my.yaml", ".", "here"),
        ("-n -d my\\ runs", "my runs", "there"),
        ('--directory="my runs" all', "my runs", "there"),
        ("--directory nowhere", "nowhere", None),
    ],
)
def test_a_run_is_resumed_in_its_own_folder(tmp_path, words, folder, run):
    for name, started in ((".", "here"), ("my runs", "there")):
        log = tmp_path / name / ".snakemake/log/x.snakemake.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"host: node\nSLURM run ID: {started}\n")
    call = ["make", "--no-print-directory", "-n", "-f", str(ROOT / "Makefile"), "resume", f"ARGS={words}"]
    done = subprocess.run(call, cwd=tmp_path, check=True, capture_output=True, text=True)
    cancelled = [f"scancel --name={run};"] if run else []
    unlocked = [*cancelled, f'snakemake --unlock --directory "{folder}"']
    assert done.stdout.splitlines() == [*unlocked, f"snakemake --profile slurm {words}"]
