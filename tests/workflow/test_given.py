"""Values on the command line mean what they mean in a file."""

import pytest
from stub_checkout import snakemake

from form_invariance.errors import UserError
from form_invariance.workflow.given import merged, with_items


@pytest.mark.parametrize("value", ["7", "0.5", "[10, 20]", "[]", "true", "{a: 1}", "text", "'010'", "a/b_1", ""])
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


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ("seed=010", "--config seed: '010' is not valid YAML: YAML reads 010 as the number 8; write 8, or put"),
        ("seed=1_0", "YAML reads 1_0 as the number 10"),
        ("dates=[1, 1:30]", "--config dates: '[1, 1:30]' is not valid YAML: YAML reads 1:30 as the number 90"),
        ("dates=[1", "--config dates: '[1' is not valid YAML"),
        ("operands={operand_min: 1, operand_min: 2}", "the key 'operand_min' appears twice"),
    ],
)
def test_values_that_are_refused(item, sentence):
    with pytest.raises(UserError) as caught:
        merged([], [item])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ("seed=[3]", "error: config key seed: [3] is wrong; it must be a whole number"),
        ("seed=1_0", "error: --config seed: '1_0' is not valid YAML"),
    ],
)
def test_snakemake_reads_its_command_line_so(finished, item, sentence):
    status, out = snakemake(finished, "-n", "--config", item)
    assert status != 0
    assert sentence in out
