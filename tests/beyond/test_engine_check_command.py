"""The command engine-check: tables of two formats in, its table out, or one sentence."""

import socket
import sys

import pytest
from replayed_run import run
from schema_checks import check_columns
from small_cells import MODEL, attribute, write_prompts
from test_engine_check import ERRORS

from form_invariance.beyond.engine_check import answer, compute
from form_invariance.beyond.engine_check.table import ENGINE_CHECK
from form_invariance.cli import main
from form_invariance.tables.files import read_table

TEMPLATES = {"symbolic": "{a}+{b}=", "code": "a = {a}\nb = {b}\nprint(a + b)  # "}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """The command's options for the tables of one operator in two formats, without the output."""
    folder = tmp_path_factory.mktemp("cells")
    options = {"--datasets": [], "--corrupt-tables": [], "--attributions": [], "--mean-caches": []}
    for name, template in TEMPLATES.items():
        files = write_prompts(folder / name, template, train=4)
        attribute(files, candidates=9)
        means = folder / name / "mean_cache.safetensors"
        sample = ("--censuses", files["census"], "--exclude", files["dataset"], "--prompts", 20)
        run("mean-cache", *MODEL, *sample, "--output", means)
        for option, kind in zip(options, ("dataset", "corrupt", "attribution"), strict=False):
            options[option].append(str(files[kind]))
        options["--mean-caches"].append(str(means))
    tables = [word for key, values in options.items() for word in (key, *values)]
    return ["engine-check", *MODEL, *tables, "--prompts", "3"]


def answer_of(path):
    (found,) = answer.answer({"engine_check": read_table(path, ENGINE_CHECK)}, 10)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_command(words, tmp_path, dtype, monkeypatch, capfd):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    output = tmp_path / "engine_check.parquet"
    assert main([*words[:-1], "2", "--dtype", dtype, "--output", str(output)]) == 0
    out, told = capfd.readouterr()
    assert not out
    assert all("cells with TransformerLens, " in line for line in told.splitlines())
    table = read_table(output, ENGINE_CHECK)
    check_columns(table, ENGINE_CHECK)
    assert table["within"].all()
    assert (table["tolerance"] == compute.TOLERANCE[dtype]).all()
    counts = table.groupby(["format", "operator", "check"])["values"].sum().unstack("check")
    assert counts.index.tolist() == [("code", "addition"), ("symbolic", "addition")]
    # 2 prompts; 3 late layers of 1,032 neurons. Two neurons of a layer are patched, in one prompt of one cell.
    expected = {"attribution": 12384, "keep_only": 4, "no_op": 3, "patch": 6, "transfer": 4}
    assert counts.sum()[list(expected)].to_dict() == expected
    sentence = answer_of(output).sentence
    assert sentence.startswith(f"Yes, within the precision of {dtype}.")
    assert f"Of {table['values'].sum():,} values" in sentence


def test_command_on_a_wrong_engine(words, tmp_path, monkeypatch, capsys):
    error, found = ERRORS[0]
    error(monkeypatch)
    output = tmp_path / "engine_check.parquet"
    assert main([*words, "--output", str(output)]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: model embedded:embedded-shared: ")
    assert f"({min(found)}, " in message
    assert not list(tmp_path.iterdir())


def without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformer_lens.model_bridge", None)
    return "TransformerLens cannot be imported"


def without_the_architecture(monkeypatch):
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES

    monkeypatch.delitem(SUPPORTED_ARCHITECTURES, "LlamaForCausalLM")
    return "TransformerLens does not know the architecture that"


@pytest.mark.parametrize("remove", [without_the_package, without_the_architecture])
def test_a_model_that_transformer_lens_cannot_run(words, tmp_path, monkeypatch, capsys, remove):
    reason = remove(monkeypatch)
    output = tmp_path / "engine_check.parquet"
    assert main([*words, "--output", str(output)]) == 0
    assert capsys.readouterr().err.startswith(f"the engine is not checked: {reason}")
    table = read_table(output, ENGINE_CHECK)
    check_columns(table, ENGINE_CHECK)
    assert table["status"].str.startswith(reason).all()
    assert len(table) == 2 * len(compute.CHECKS)
    assert not table["within"].any()
    assert reason in answer_of(output).sentence


def test_wrong_options(words, tmp_path, capsys):
    output = ["--output", str(tmp_path / "x.parquet")]
    assert main([*words[:-1], "0", *output]) == 2
    assert "--prompts: must be at least 1" in capsys.readouterr().err
    for option, key in (("--corrupt-tables", "cell"), ("--attributions", "cell"), ("--mean-caches", "format")):
        place = words.index(option) + 1
        assert main([*words[:place], *words[place + 1 :], *output]) == 2
        assert f"{option} must have a file for each {key} of --datasets" in capsys.readouterr().err
