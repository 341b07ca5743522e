"""Paths that a shell, Python's search path or Snakemake would act on; all results below a prefix."""

import os
import re
import shutil
from shlex import quote

import pytest
import yaml
from stub_checkout import ROOT, done, job_counts, make_checkout, noted_calls, pending

from form_invariance.errors import UserError
from form_invariance.workflow.paths import check_folders

pytestmark = pytest.mark.slow

PLAIN = 'a:b it\'s "q" 100%s é☃ $HOME `x` ; #'
BRACES = ["{model}", "{} {{x}} {0}", "{n,[0-9]{2}}", "open{", "}close"]
"""Names of folders."""
OUTSIDE = re.compile(r"(?<!x/)\bresults/")
"""A path in the results that is not below the prefix `x`."""
OPERANDS = {"operand_min": 6, "operand_max": 30, "answer_min": 3, "answer_max": 99}
"""Few, because a configuration is checked with each."""
SMALL = ("--configfile", str(ROOT / "config/test.yaml"), "--config", f"operands={OPERANDS}")


def run(checkout, folder, *words):
    return done(checkout, "-s", str(checkout / "Snakefile"), *words, folder=folder)


def test_files_of_the_user_may_have_any_path_and_a_change_is_seen_though_it_is_older(checkout, tmp_path):
    name = PLAIN + " ".join(BRACES[::-1])
    (tmp_path / name).mkdir()
    shutil.copy(ROOT / "config/tables/plural.csv", tmp_path / name / "table.csv")
    shutil.copytree(ROOT / "src/form_invariance/embedded/models/embedded-shared", tmp_path / name / "model")
    (tmp_path / name / "text.txt").write_text("plain text")
    template = "One apple, two apples. One {word}, two"
    config = {
        "operators": {"plural": {"table": f"{name}/table.csv"}},
        "formats": {form: {"templates": {"plural": form + template}} for form in ("symbolic", "code")},
        "models": {"mine": {"source": f"{name}/model"}},
        "specificity_tasks": {},
        "specificity_text": f"{name}/text.txt",
        "variant_operators": [],
    }
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(config))
    words = ("--configfile", "my.yaml", "--until", "specificity")
    out = run(checkout, tmp_path, "-p", *words)
    for option in (f"--model={name}/model", f"--table={name}/table.csv", f"--text={name}/text.txt"):
        assert quote(option) in out
    for path in (tmp_path / name).rglob("*"):
        path.touch()
    for file, old, new, again, not_again in (
        ("text.txt", b"plain", b"other", {"specificity"}, {"model_files", "census"}),
        ("table.csv", b"child,children", b"cloud,children", {"census", "specificity"}, {"model_files"}),
        ("model/config.json", b'"bos_token_id"', b'"box_token_id"', {"model_files", "census"}, set()),
    ):
        path = tmp_path / name / file
        path.write_bytes(path.read_bytes().replace(old, new, 1))
        os.utime(path, (0, 0))
        found = set(job_counts(run(checkout, tmp_path, "-n", *words)))
        assert found >= again
        assert not found & not_again


def test_the_checkout_may_have_any_path_without_braces(tmp_path):
    own = make_checkout(tmp_path / PLAIN)
    target = "results/embedded-shared/code/addition/census.parquet"
    done(own, target, *SMALL)
    # The checkout's own source ran, which only notes its calls.
    assert [command for command, *_ in noted_calls(own)] == ["model-files", "census"]
    assert pending(own, target, *SMALL) == {}


@pytest.mark.parametrize("name", BRACES)
def test_one_brace_is_enough_to_be_refused(tmp_path, name):
    checkout = tmp_path / name
    checkout.mkdir()
    with pytest.raises(UserError, match=re.escape(f"the path of the checkout, {checkout}, has braces, which")):
        check_folders(working_folder=tmp_path, checkout=checkout)


def run_module(folder, checkout, *words, **config):
    """What Snakemake prints in a project that uses the workflow with a prefix, and makes all of it."""
    given = yaml.safe_load((ROOT / "config/test.yaml").read_text())
    given |= {"models": {"low": {"source": "embedded:embedded-shared", "dtype": "bfloat16"}}}
    given |= {"variant_operators": [], "operands": OPERANDS, **config}
    (folder / "Snakefile").write_text(
        f"module form_invariance:\n    snakefile: {str(checkout / 'Snakefile')!r}\n"
        f"    config: {given!r}\n    prefix: 'x'\n"
        "use rule * from form_invariance as fi_*\n"
        "rule mine:\n    default_target: True\n    input: rules.fi_all.input\n"
    )
    return done(checkout, *words, "--cores", "2", folder=folder)


def test_a_module_with_a_prefix_runs_and_leaves_the_users_files_where_they_are(checkout, tmp_path):
    (tmp_path / "text.txt").write_text("The plain text of a user, for specificity.\n" * 100)
    config = {"specificity_text": "text.txt", "corrupt": "across_operators", "late_from": 2}
    planned = run_module(tmp_path, checkout, "-n", "-p", **config)
    assert planned.count("x/results/") > 200
    assert not OUTSIDE.search(planned)
    assert "--text=text.txt" in planned
    assert "--benchmarks x/results/benchmarks" in planned
    target = "x/results/low/code/addition/dataset.parquet"
    run_module(tmp_path, checkout, target, **config)
    assert (tmp_path / target).exists()
    assert not (tmp_path / "results").exists()
    assert not OUTSIDE.search((tmp_path / "calls.jsonl").read_text())
    assert "Nothing to be done" in run_module(tmp_path, checkout, "-n", target, **config)
