"""Values on the command line mean what they mean in a file."""

import json

import pytest
from configurations import ROOT, SHIPPED
from stub_checkout import snakemake

from form_invariance.errors import UserError
from form_invariance.workflow.config_check import load
from form_invariance.workflow.given import left_out, merged, with_items
from form_invariance.workflow.rule_options import copying_tasks, other_tasks, task_options


@pytest.mark.parametrize("value", ["0.5", "[10, 20]", "{a: 1}", "'{a}+{b} = '", "'010'", ""])
def test_a_value_is_that_of_a_file(tmp_path, value):
    path = tmp_path / "my.yaml"
    path.write_text(f"seed: {value}\nbootstrap: 5")
    theirs = merged([path], [])
    assert merged([], [f"seed={value}"])["seed"] == theirs["seed"]


def test_values_are_merged_with_those_of_files_as_snakemake_merges(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("operands: {operand_min: 1, operand_max: 9}\nseed: 1\n")
    as_snakemake_reads = {"operands": {"operand_min": "2", "operand_max": 9}, "seed": 1, "of_the_snakefile": 3}
    found = with_items(as_snakemake_reads, [path], ["operands={operand_min: 2}"])
    assert found == {"operands": {"operand_min": 2, "operand_max": 9}, "seed": 1, "of_the_snakefile": 3}
    assert with_items(as_snakemake_reads, [path], []) == as_snakemake_reads


def test_a_value_that_yaml_reads_as_another_number_is_refused():
    said = r"--config dates: '\[1, 1:30\]' is not valid YAML: YAML reads 1:30 as the number 90[^\n]*$"
    with pytest.raises(UserError, match=said):
        merged([], ["dates=[1, 1:30]"])


@pytest.mark.slow
def test_snakemake_reads_its_command_line_so(finished):
    status, out = snakemake(finished, "-n", "--config", "seed=1_0")
    assert status != 0
    assert "error: --config seed: '1_0' is not valid YAML" in out


def test_what_a_file_leaves_out_of_the_default_is_named_unless_it_is_another_experiment():
    formats = {name: SHIPPED["formats"][name] for name in ("code", "word")}
    for own, lost in (
        ({"operators": {"addition": "a + b", "multiplication": "a * b"}}, ["subtraction, division"]),
        ({"operators": {"maximum": "max(a, b)"}, "formats": formats}, ["addition, ", "symbolic"]),
        ({"operators": {"addition": "a + b"}, "formats": formats}, []),
        *((load(ROOT / f"config/{name}.yaml"), []) for name in ("demo", "digits", "paper", "qwen", "smollm2")),
    ):
        found = list(left_out(SHIPPED | own, SHIPPED))
        assert len(found) == len(lost)
        assert all(f"this run leaves out {part}" in said for part, said in zip(lost, found, strict=True))


def test_copying_tasks_and_their_limits():
    given = {"copy": {"expression": "a"}, "second": {"expression": "b", "operands": {"operand_max": 7}}}
    others = {"larger": {"expression": "max(a, b)"}, "words": {"table": "t.csv"}}
    config = {"specificity_tasks": {**given, **others}, "operands": {"operand_min": 2, "operand_max": 99}}
    assert json.loads(copying_tasks(config)) == {
        "copy": {"expression": "a", "operands": {"operand_min": 2, "operand_max": 99}},
        "second": {"expression": "b", "operands": {"operand_min": 2, "operand_max": 7}},
    }
    asked = task_options(given["second"], config["operands"], {})
    assert asked == ["--expression=b", "--operand-min=2", "--operand-max=7"]
    assert json.loads(copying_tasks({**config, "specificity_tasks": {}})) == {}
    found = json.loads(other_tasks(config, {"t.csv": "abc"}))
    assert found == {**given, **others, "words": {"table": "t.csv", "sha256": "abc"}}
