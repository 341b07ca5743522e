"""Several commands in one process: each does what it does alone, and the model is read once."""

import pytest

from form_invariance.cli import main
from form_invariance.model import loading
from form_invariance.workflow.rule_options import file_options, in_turn, settings_of

LIMITS = ["--operand-min", "6", "--operand-max", "99", "--answer-min", "3", "--answer-max", "999"]


def census(template, output, *more):
    given = ["--template", template, "--operator", "addition", "--expression", "a + b", "--pairs", "20"]
    model = ["--model", "embedded:embedded-shared", *more]
    return ["census", *model, *given, *LIMITS, "--seed", "0", "--output", str(output)]


@pytest.fixture
def loads(monkeypatch):
    """The precisions in which models are loaded, in order."""
    found, load = [], loading.load

    def counted(folder, dtype, device, prove=False):
        found.append(str(dtype).removeprefix("torch."))
        return load(folder, dtype=dtype, device=device)

    monkeypatch.setattr(loading, "load", counted)
    return found


def test_commands_share_a_model_and_write_the_same(tmp_path, loads):
    templates = ["{a}+{b}=", "a = {a}\nb = {b}\nprint(a + b)  # "]
    for number, template in enumerate(templates):
        assert main(census(template, tmp_path / f"alone_{number}.parquet")) == 0
    assert len(loads) == 2
    first, second = (census(text, tmp_path / f"turn_{number}.parquet") for number, text in enumerate(templates))
    assert main([*first, "+", *second]) == 0
    assert len(loads) == 3
    for number in range(2):
        alone, turn = (tmp_path / f"{name}_{number}.parquet" for name in ("alone", "turn"))
        assert alone.read_bytes() == turn.read_bytes()


def test_another_precision_is_another_model(tmp_path, loads):
    calls = [
        census("{a}+{b}=", tmp_path / f"{dtype}.parquet", "--dtype", dtype) for dtype in ("float32", "bfloat16")
    ]
    assert main([*calls[0], "+", *calls[1], "+", *calls[0]]) == 0
    assert loads == ["float32", "bfloat16", "float32"], "one model at a time is in memory"


def test_a_mistake_ends_the_commands(tmp_path, capsys):
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    wrong = census("{a}+=", bad)
    assert main([*census("{a}+{b}=", good), "+", *wrong, "+", *census("{a}+{b}=", bad)]) == 2
    assert good.exists()
    assert not bad.exists()
    assert "{b}" in capsys.readouterr().err


def test_the_shell_command_of_a_rule():
    found = in_turn("one {input.cells[#]:q}", "two {output[#]:q}", turns=2)
    first, second = ("one {input.cells[N]:q} + two {output[N]:q}".replace("N", str(turn)) for turn in (0, 1))
    assert found == f"python -m form_invariance {first} + {second} 2> {{log:q}}"


def test_the_files_of_a_job_as_options():
    """A single file, files with and without a key, and a name without files; an output only by its name."""
    cells = [f"results/m/{form}/sum/effects.safetensors" for form in ("word", "code")]
    given = {"effects": cells, "datasets": ["b", "a"], "nothing": [], "corrupt_table": "one.parquet"}
    written = {"output": "x", "other_outputs": ["y"], "arrays": ["z"]}
    words = file_options(effects=(-3, -2), nothing=-2)(None, given, written)
    assert words == [
        *("--effects", f"word/sum={cells[0]}", f"code/sum={cells[1]}", "--datasets", "b", "a"),
        *("--corrupt-table", "one.parquet", "--output", "x", "--other-outputs", "y"),
    ]


def test_the_files_of_each_turn_as_options():
    """Every second file; a single file and the shared ones in both turns."""
    datasets = [f"results/m/{form}/{operator}/x" for form in ("word", "code") for operator in ("sum", "product")]
    given = {"model_files": "m", "dataset": datasets, "mean_cache": ["a/word/x", "a/code/x"]}
    options = file_options(2, ["mean_cache"], dataset=-3, mean_cache=-2)(None, given, {"output": ["one", "two"]})
    shared = ["--mean-cache", "word=a/word/x", "code=a/code/x"]
    for turn, output in enumerate(["one", "two"]):
        own = ["--dataset", f"word={datasets[turn]}", f"code={datasets[turn + 2]}"]
        assert options[turn] == ["--model-files", "m", *own, *shared, "--output", output]


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, ["--center-logits"]), (False, ["--no-center-logits"]), ([2, 1], ["--center-logits", "1", "2"])],
)
def test_settings_as_options(value, words):
    config = {"center_logits": value, "k_shown": 5}
    assert settings_of(config, "center_logits", max_k="k_shown") == [*words, "--max-k", "5"]
