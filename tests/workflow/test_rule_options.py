"""Options and files of rules, by names and paths."""

import pytest

from form_invariance.workflow.rule_options import files_of, keyed, of_model, settings_of, table_options


def test_files_and_their_keys():
    cells = [f"results/{{model}}/{form}/sum/x.parquet" for form in ("word", "code")]
    groups = {"x": [cells, -3], "pairs": [cells, -3, -2], "alone": ["results/{model}/alone.parquet"]}
    assert files_of(groups) == [*cells, *cells, "results/{model}/alone.parquet"]
    found = of_model(groups, "m")
    assert found["x"] == ["results/m/word/sum/x.parquet", "results/m/code/sum/x.parquet"]
    assert keyed(found["x"], -3) == [f"{form}=results/m/{form}/sum/x.parquet" for form in ("word", "code")]
    assert table_options(groups, found) == [
        *(f"x/{form}=results/m/{form}/sum/x.parquet" for form in ("word", "code")),
        *(f"pairs/{form}/sum=results/m/{form}/sum/x.parquet" for form in ("word", "code")),
        "alone=results/m/alone.parquet",
    ]
    assert table_options(groups, {"alone": "results/m/alone.parquet"}) == ["alone=results/m/alone.parquet"]


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, ["--center-logits"]), (False, ["--no-center-logits"]), ([2, 1], ["--center-logits", "1", "2"])],
)
def test_settings_as_options(value, words):
    config = {"center_logits": value, "k_shown": 5}
    assert settings_of(config, "center_logits", max_k="k_shown") == [*words, "--max-k", "5"]
