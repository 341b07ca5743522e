"""Every mistake in a configuration is reported in one sentence, with what is right."""

import copy
import json
import re
import shutil
import socket

import pytest
from configurations import SCHEMA, SHIPPED, with_value
from huggingface_hub import constants
from stub_checkout import ROOT

from form_invariance.errors import UserError
from form_invariance.model.files import PACKAGED
from form_invariance.stages import options
from form_invariance.workflow import config_check, config_schema, model_checks
from form_invariance.workflow.undefined import undefined_verdicts

pytestmark = pytest.mark.slow

# Smaller operands: every template is checked with each of them, a second for a whole configuration.
BOS = "<|begin_of_text|>"
DEFAULT = SHIPPED | {"operands": SHIPPED["operands"] | {"operand_max": 99, "answer_max": 99}}
DEFAULT |= {"train_prompts": 2, "eval_prompts": 1}


def changed(path: str, value) -> dict:
    """The default configuration with one value changed; `...` as a value deletes the key."""
    return with_value(DEFAULT, path, value)


def sentence(config: dict) -> str:
    with pytest.raises(UserError) as caught:
        config_check.check(config, SCHEMA)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_schema_and_the_commands_have_the_same_choices():
    assert set(options._OPTIONS["--membership"]["choices"]) == set(SCHEMA["properties"]["membership"]["enum"])


def test_shipped_configurations_are_right():
    for name in ("config.yaml", "test.yaml", "digits.yaml"):
        config_check.check({**SHIPPED, **config_check.load(ROOT / "config" / name)}, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("sede", 1, ["'sede'", "did you mean 'seed'?"]),
        ("models/embedded-shared/devise", "cpu", ["models.embedded-shared", "did you mean 'device'?"]),
        ("operands/minimum", 3, ["operands", "'minimum'"]),
        ("seed", ..., ["'seed' is missing"]),
        ("models/embedded-shared/source", ..., ["models.embedded-shared", "'source' is missing"]),
        ("seed", "one", ["seed", "'one'", "whole number"]),
        ("seed", 1.0, ["seed", "1.0", "whole number"]),
        ("seed", True, ["seed", "True", "whole number"]),
        ("train_prompts", 0, ["train_prompts", "at least 2"]),
        ("models", None, ["models", "it is empty", "at least 1"]),
        ("models/embedded-shared/dtype", "float16", ["dtype", "float32 or tf32 or bfloat16"]),
        *(
            ("models/embedded-shared/device", value, ["models.embedded-shared.device", "auto, cpu", "cuda:1"])
            for value in ("gpu", "", "cuda:", "cuda:x", "cpu:0", "CUDA", "auto:0", "cuda,mps", "cpu\n", 0, None)
        ),
        ("corrupt", "within", ["corrupt", "within_operator or across_operators"]),
        ("center_logits", "maybe", ["center_logits", "true or false"]),
        ("k", [10, 20, 10], ["k", "each number once"]),
        ("k", [], ["k", "a list"]),
        ("k", [50, 1100], ["config key k", "1100", "1032", "embedded-shared"]),
        ("candidates", 100, ["config key k", "150", "candidates (100)"]),
        ("late_from", "onset", ["late_from", "'half_depth' or a whole number"]),
        ("late_from", 6, ["late_from", "below 6", "embedded-shared"]),
        ("late_from", -1, ["late_from", "-1", "half_depth"]),
        ("formats/symbolic/templates/addition", ..., ["formats.symbolic", "'addition'", "add one"]),
        ("formats/symbolic/templates/addition", "{a}+", ["formats.symbolic.templates.addition", "{b}"]),
        ("formats/symbolic/templates/addition", "{a}+{b}={c}", ["formats.symbolic.templates.addition", "'c'"]),
        (
            "formats/symbolic/templates/addition",
            "{a!s}+{b}=",
            ["templates.addition", "write {a} in place of {a!s}"],
        ),
        ("formats/symbolic/templates/addition", BOS + "{a}+{b}=", ["templates.addition", f"{BOS!r} begins every"]),
        ("formats/word/variants/addition", [BOS + "{a}+{b}="], ["variants.addition[0]", f"{BOS!r} begins every"]),
        ("formats/symbolic/templates/addition", "{a}{b}", ["embedded-shared", "'{a}{b}'", "tokens"]),
        ("formats/symbolic/variants/additon", ["{a}+{b}="], ["variants", "did you mean 'addition'?"]),
        ("formats/symbolic/variants/addition", ["{a}+"], ["variants.addition[0]", "{b}"]),
        ("formats/shared", {"templates": DEFAULT["formats"]["code"]["templates"]}, ["formats", "'shared'"]),
        ("operators/all", "a + b", ["operators", "'all'", "is reserved"]),
        ("operators/text", "a + b", ["operators", "'text'", "is reserved"]),
        ("formats/all", {"templates": DEFAULT["formats"]["code"]["templates"]}, ["formats", "'all'", "reserved"]),
        ("results", "src/results", ["results", "'src' is a folder of the project"]),
        ("operators/modulo", "a % b", ["'modulo'", "no template"]),
        ("operators/addition", "a ^ b", ["'a ^ b'", "a // b"]),
        ("operators/addition", "a +", ["'a +'", "cannot be read"]),
        ("k_shown", 300, ["k_shown", "300", "150"]),
        ("census_pairs", 2, ["operators.addition", "asks 2 problems", "need 3 right answers; raise census_pairs"]),
        (
            "variant_operators",
            ["additon"],
            ["variant_operators", "'additon'", "did you mean 'addition'?"],
        ),
        ("variant_operators", "addition", ["variant_operators", "a list of names"]),
        (
            "formats/word/variants/addition",
            ["{a} plus {b} is {a}"],
            ["formats.word.variants.addition[0]", "once each"],
        ),
        (
            "formats/word/variants/addition",
            ["{a} and {b} are ", "{a}{b}"],
            ["formats.word.variants.addition[1]", "tokenizer of embedded-shared", "tokens"],
        ),
        ("heuristic_threshold", 2, ["heuristic_threshold", "above 0 and at most 1"]),
        ("heuristic_max_operand", 5, ["heuristic_max_operand", "at least 20 and at most 1000"]),
        ("operands/operand_max", 5, ["6..5", "operand_max"]),
        ("operands/answer_max", 2, ["3..2", "answer_max must be at least answer_min"]),
        ("operands/operand_max", 10**6, ["splits the number 1000", "operand_max"]),
        (
            "operands/operand_max",
            1000,
            ["config key operands with the tokenizer of embedded-shared: ", "1000", "operand_max"],
        ),
        ("models/embedded-shared/source", "embedded:shared", ["embedded:shared", "embedded:embedded-shared"]),
        (
            "models/embedded-shared/source",
            "./none",
            ["config key models.embedded-shared.source: ", "./none", "does not exist", "hub id"],
        ),
        ("models/figures", {"source": "embedded:embedded-shared"}, ["models", "'figures'"]),
        ("models/a b", {"source": "embedded:embedded-shared"}, ["models", "'a b'", "letters"]),
        (
            "formats/español",
            {"templates": {"addition": "{a}+{b}="}},
            ["config key formats", "'español'", "letters a to z and A to Z"],
        ),
        (
            "formats/-x",
            {"templates": {"addition": "{a}+{b}="}},
            ["config key formats", "'-x'", "begin with a letter or digit"],
        ),
    ],
)
def test_mistakes(path, value, expected):
    text = sentence(changed(path, value))
    assert all(part in text for part in expected), text


@pytest.mark.parametrize("value", ["auto", "cpu", "cuda", "cuda:0", "cuda:12", "mps", "xpu:1", "npu"])
def test_devices(value):
    config_schema.check_schema(changed("models/embedded-shared/device", value), SCHEMA)


def test_misspelt_template(tmp_path):
    config = copy.deepcopy(DEFAULT)
    templates = config["formats"]["word"]["templates"]
    templates["additon"] = templates.pop("addition")
    assert "is 'additon' a misspelling of it?" in sentence(config)


def test_two_directions_of_transfer_with_one_name():
    config = copy.deepcopy(DEFAULT)
    one = config["formats"]["symbolic"]
    config["formats"] = dict.fromkeys(["a", "a_to_b", "b_to_c", "c"], one)
    assert sentence(config) == (
        "config key formats: the directions of transfer from a to b_to_c and from a_to_b to c have one name, "
        "'a_to_b_to_c'; rename a format"
    )
    for names in (["a", "a_to_b", "b_to_c"], ["a_to_b", "c_to_d", "to"], ["x_to_x", "x"]):
        config["formats"] = dict.fromkeys(names, one)
        if names[-1] == "x":
            assert "'x_to_x_to_x'" in sentence(config)
        else:
            config_check.check(config, SCHEMA)


def test_braces_of_json_and_c_are_text(tmp_path):
    config = with_table(tmp_path, template='{"word": "{word}", "plural": "')
    config["formats"]["code"]["templates"]["addition"] = "int a[] = {{a}, {b}}; // sum: "
    config["specificity_tasks"] = {"mine": {"expression": "a", "templates": {"code": '{"x": {a}, "y": '}}}
    config_check.check(config, SCHEMA)


def test_one_format_is_not_enough():
    config = copy.deepcopy(DEFAULT)
    config["formats"] = {"symbolic": config["formats"]["symbolic"]}
    assert "at least 2" in sentence(config)


PLACES = ["models", "operators", "formats", "formats/symbolic/templates", "formats/symbolic/variants"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["no", "1"])
def test_a_name_that_yaml_takes_for_no_text(tmp_path, place, name):
    (tmp_path / "config.yaml").write_text(f"{name}: x")
    (read,) = config_check.load(tmp_path / "config.yaml")
    config = copy.deepcopy(DEFAULT)
    section = config
    for key in place.split("/"):
        section = section[key]
    section[read] = next(iter(section.values()))
    config["operators"].setdefault("modulo", "a % b")
    text = sentence(config)
    assert text.startswith(f"config key {place.replace('/', '.')}: YAML reads a name there as {read!r}")
    assert "put the name in quotes" in text


@pytest.mark.parametrize("value", ["../../x", "/etc/passwd", "a/../b", "-x", "a b", "$(touch x)", "main\n", "é"])
def test_a_revision_that_is_none(value):
    text = sentence(changed("models/embedded-shared/revision", value))
    assert text.startswith(
        f"config key models.embedded-shared.revision: {value!r} is wrong; it must be a branch, tag"
    )


@pytest.mark.parametrize("value", ["main", "refs/pr/7", "v1.0+b", "4e20de362430cd3b72f300e6b0f18e50e7166e08"])
def test_revisions(value):
    config_check.check(changed("models/hub", {"source": "organization/model", "revision": value}), SCHEMA)


def test_a_name_that_is_a_path():
    config = copy.deepcopy(DEFAULT)
    config["operators"]["a/b"] = "a + b"
    assert "'a/b'" in sentence(config)
    config = copy.deepcopy(DEFAULT)
    config["models"] = {"../up": {"source": "embedded:embedded-shared"}}
    assert "'../up'" in sentence(config)


@pytest.fixture
def folder(packaged_copy):
    return packaged_copy


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_model_folder_without_a_file(folder, name):
    (folder / name).unlink()
    text = sentence(changed("models/embedded-shared/source", str(folder)))
    assert text.startswith("config key models.embedded-shared.source: ")
    assert str(folder) in text
    assert name.removeprefix("model") in text


def test_a_folder_in_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    config_check.check(changed("models/embedded-shared/source", "~/model"), SCHEMA)
    assert model_checks.local_folder("~/model") == folder
    assert "'~/none' does not exist" in sentence(changed("models/embedded-shared/source", "~/none"))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model_type": "mamba"}, "MambaForCausalLM.* has none of the parts"),
        ({"model_type": "no-such-family"}, "no-such-family"),
        ({"model_type": "mixtral", "num_local_experts": 2}, "MixtralSparseMoeBlock"),
        ({"model_type": "granite", "residual_multiplier": 0.22}, "has residual_multiplier 0.22"),
        ({"hidden_act": "tanh"}, "has the activation Tanh"),
        ({"quantization_config": {"quant_method": "gptq"}}, "the model is quantised"),
    ],
)
def test_a_class_that_the_engine_does_not_read_is_refused_before_any_job(folder, keys, said):
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**raw, **keys}))
    assert re.search(said, sentence(changed("models/embedded-shared/source", str(folder))))


@pytest.mark.parametrize("value", [[], ...])
def test_variants_may_be_left_out(value):
    config_check.check(changed("variant_operators", value), SCHEMA)


@pytest.mark.parametrize("value", [{}, ...])
def test_tasks_may_be_left_out(value):
    config_check.check(changed("specificity_tasks", value), SCHEMA)


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ({"expression": "a"}, ["specificity_tasks.mine", "'templates' is missing"]),
        ({"expression": "c", "templates": {}}, ["'c'", "something other than a, b"]),
        ({"expression": "max(a, b)", "templates": {"code": "{a}="}}, ["templates.code", "{b}"]),
        ({"expression": "a", "templates": {"code": "{x}{a}="}}, ["templates.code", "no other field"]),
        ({"expression": "a", "templates": {"word": "It is {a}"}}, ["templates.word", "next token"]),
        (
            {"expression": "a", "templates": {"code": "{a!s}={a}="}},
            ["templates.code", "write {a} in place of {a!s}"],
        ),
        (
            {"expression": "a", "templates": {"code": BOS + "{a}="}},
            ["templates.code", f"{BOS!r} begins every prompt"],
        ),
    ],
)
def test_tasks_that_cannot_be_measured(task, parts):
    text = sentence(changed("specificity_tasks", {"mine": task}))
    assert all(part in text for part in parts), text


@pytest.mark.parametrize("name", ["text", "addition", "a b"])
def test_names_of_tasks(name):
    text = sentence(changed("specificity_tasks", {name: {"expression": "a", "templates": {}}}))
    assert f"specificity_tasks.{name}: choose another name" in text


def test_a_task_without_a_template_in_a_format_is_not_measured_there():
    task = {"expression": "a", "templates": {"code": "{a}={a}=", "nowhere": "It is {a}"}}
    config_check.check(changed("specificity_tasks", {"mine": task}), SCHEMA)


def test_a_misspelt_format_of_a_given_task_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"specificity_tasks": {"mine": {"expression": "a", "templates": {"cod": "{a}={a}="}}}}
    with pytest.raises(UserError, match=r"tasks\.mine\.templates: 'cod' is not a format; did you mean 'code'"):
        config_check.read([], DEFAULT | given, ROOT / "config")
    formats = {"codes" if name == "code" else name: one for name, one in DEFAULT["formats"].items()}
    default = {key: value for key, value in DEFAULT.items() if key != "specificity_tasks"}
    config_check.read([], default | {"formats": formats}, ROOT / "config")


def test_the_plain_text_must_exist(tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    config_check.check(changed("specificity_text", str(tmp_path / "text.txt")), SCHEMA)
    assert "there is no file" in sentence(changed("specificity_text", str(tmp_path / "none.txt")))


def test_variants_that_are_not_measured_wait_unchecked():
    config = changed("variant_operators", ["maximum", "subtraction"])
    config["formats"]["word"]["variants"]["addition"] = ["{a}{b}"]
    config_check.check(config, SCHEMA)
    cells = [(f"{name}~{number}", "subtraction") for name in config["formats"] for number in (1, 2)]
    assert config_check.measured_variants(config) == cells
    assert config_check.template_of(config, "symbolic~2", "subtraction") == "({a}-{b}) = "


def test_partners_of_other_operators_need_as_many_variants():
    config = changed("corrupt", "across_operators")
    config_check.check(config, SCHEMA)
    config["formats"]["code"]["variants"]["division"].pop()
    text = sentence(config)
    assert "formats.code.variants" in text
    assert "addition has variant 2, but division has 1" in text


def test_hub_ids_wait_for_their_job():
    config_check.check(changed("models/embedded-shared/source", "meta-llama/Llama-3.2-1B"), SCHEMA)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Puts files of a packaged model into the hub's cache as the model owner/name; the network is away."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", pytest.fail)
    commit, model = "4e20de362430cd3b72f300e6b0f18e50e7166e08", tmp_path / "models--owner--name"

    def put(*names):
        folder = model / "snapshots" / commit
        folder.mkdir(parents=True, exist_ok=True)
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs/main").write_text(commit)
        for name in names:
            shutil.copy(PACKAGED / "embedded-shared" / name, folder)
        return folder

    return put


def with_hub_model(path, value):
    return {**changed(path, value), "models": {"hub": {"source": "owner/name"}}}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("k", [50, 1100], ["config key k", "1100", "1032"]),
        ("late_from", 6, ["late_from", "below 6"]),
        ("formats/symbolic/templates/addition", "{a}{b}", ["formats.symbolic.templates.addition", "tokens"]),
        ("formats/word/variants/addition", ["{a}{b}"], ["formats.word.variants.addition[0]", "tokens"]),
    ],
)
def test_a_hub_model_in_the_cache_is_checked(cached, path, value, expected):
    config = with_hub_model(path, value)
    config_check.check(config, SCHEMA)
    cached("config.json", "tokenizer.json")
    text = sentence(config)
    assert all(part in text for part in expected), text
    config["models"]["hub"]["revision"] = "another"
    config_check.check(config, SCHEMA)


def test_a_hub_model_of_which_the_cache_has_a_part_waits_for_the_rest(cached, tmp_path):
    remembered = tmp_path / "remembered"
    config = with_hub_model("formats/symbolic/templates/addition", "{a}{b}")
    config_check.check(config, SCHEMA, remembered)
    before = remembered.read_text()
    folder = cached("config.json")
    config_check.check(config, SCHEMA, remembered)
    assert remembered.read_text() != before
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "not_here.safetensors"}}')
    cached("tokenizer.json")
    with pytest.raises(UserError, match="tokens"):
        config_check.check(config, SCHEMA, remembered)


def test_what_the_hub_cannot_have_waits_for_its_job():
    config_check.check(changed("models/embedded-shared/source", "owner/odd..name"), SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed: [1\nk: {", "line 2"),
        ("- 1\n", "keys and values"),
        ("", "keys and values"),
        (None, "does not exist"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, text, expected):
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=expected):
        config_check.load(path)


def test_the_slow_checks_are_remembered_and_only_for_what_they_saw(tmp_path, folder):
    remembered = tmp_path / "remembered"
    config = changed("models/embedded-shared/source", str(folder))
    config_check.check(config, SCHEMA, remembered)
    first = remembered.read_text()
    config_check.check(config, SCHEMA, remembered)
    assert remembered.read_text() == first
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="tokenizer"):
        config_check.check(config, SCHEMA, remembered)
    assert remembered.read_text() == first


def test_the_slow_checks_are_repeated_for_the_keys_that_they_read(tmp_path, monkeypatch):
    remembered, seen = tmp_path / "remembered", []
    monkeypatch.setattr(config_check, "check_models", lambda config, variants: seen.append(config))
    other = changed("k", [50])
    for config, times in (
        *((DEFAULT, 1), (changed("seed", 7), 1), (changed("probe_prompts", 99), 1), (other, 2)),
        *((DEFAULT, 2), (changed("seed", 7), 2), (other, 2), (changed("corrupt", "across_operators"), 3)),
    ):
        config_check.check(config, SCHEMA, remembered)
        assert len(seen) == times


def test_a_wrong_configuration_writes_nothing(tmp_path):
    with pytest.raises(UserError):
        config_check.check(changed("k", [1000]), SCHEMA, tmp_path / "folder/remembered")
    assert not list(tmp_path.iterdir())


def test_readme_explains_every_key_with_its_default():
    text = (ROOT / "config/README.md").read_text()
    for key, value in SHIPPED.items():
        assert f"`{key}`" in text or f"`{key}." in text
        if isinstance(value, int | str):
            assert str(value).lower() in next(line for line in text.splitlines() if line.startswith(f"| `{key}`"))
    for section in ("models", "formats"):
        for key in SCHEMA["properties"][section]["additionalProperties"]["properties"]:
            assert f"| `{key}` |" in text
    for key in SCHEMA["properties"]["operands"]["properties"]:
        assert f"`operands.{key}`" in text


def test_no_heavy_imports():
    import subprocess
    import sys

    code = "import sys, form_invariance.workflow.config_check; print({'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def with_table(folder, text="word,answer\nmouse,mice\nman,men\nox,oxen\n", template="{word}=", **keys):
    """The default configuration with an operator `plural` that is a table."""
    path = folder / "plural.csv"
    path.write_text(text)
    config = copy.deepcopy(DEFAULT)
    config["operators"]["plural"] = {"table": str(path), **keys.pop("operator", {})}
    for one in config["formats"].values():
        one["templates"]["plural"] = template
    return {**config, **keys}


def test_an_operator_may_be_a_table(tmp_path):
    config_check.check(with_table(tmp_path), SCHEMA)
    named = with_table(tmp_path, "word,plural\nmouse,mice\nman,men\nox,oxen\n", operator={"answer": "plural"})
    config_check.check(named, SCHEMA)
    only = {
        "operators": {"plural": named["operators"]["plural"]},
        "variant_operators": [],
        "specificity_tasks": {},
    }
    # Numbers that the tokenizer splits do not matter then.
    wide = {"operands": {"operand_min": 0, "operand_max": 5000, "answer_min": 0, "answer_max": 5000}}
    config_check.check({**named, **only, **wide}, SCHEMA)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"operator": {"column": "x"}}, ["config key operators.plural", "table", "answer"]),
        ({"operator": {"table": "none.csv"}}, ["config key operators.plural", "none.csv", "cannot be read"]),
        ({"operator": {"table": 7}}, ["config key operators.plural", "FILE.csv"]),
        ({"operator": {"answer": "plural"}}, ["config key operators.plural", "'plural'", "word, answer"]),
        ({"text": "word,answer\na,b\nc,b\n"}, ["config key operators.plural", "two distinct answers"]),
        ({"template": "{a}+{b}="}, ["config key formats.symbolic.templates.plural", "{word}", "['a', 'b']"]),
        ({"template": "{word}: "}, ["formats.symbolic.templates.plural", "embedded-shared"]),
        ({"template": "{word:>5}="}, ["formats.symbolic.templates.plural", "write {word} in place of {word:>5}"]),
        ({"template": "{word} {wrod}="}, ["formats.symbolic.templates.plural", "write {word} in place of {wrod}"]),
        ({"template": f"{BOS}{{word}}="}, ["formats.symbolic.templates.plural", f"{BOS!r} begins every prompt"]),
        ({"text": "word,answer\nx,a,b\ny,c,d\n"}, ["config key operators.plural", "values in line 2 is 3"]),
        (
            {"text": "id,word,answer\n1,mouse,mice\n\n2,man,men\n3,mouse,mouses\n"},
            ["formats.symbolic.templates.plural", "the same prompt, 'mouse='", "lines 2 and 5 of", "plural.csv"],
        ),
    ],
)
def test_mistakes_in_a_table(tmp_path, keys, expected):
    found = sentence(with_table(tmp_path, **keys))
    assert all(part in found for part in expected), found


def only_table(folder, answers):
    """The default configuration with a table of these answers alone, which are tokens of the model."""
    rows = "".join(f"w{row},{answer}\n" for row, answer in enumerate(answers))
    config = with_table(folder, f"word,answer\n{rows}", "{word} = ", variant_operators=[], specificity_tasks={})
    models = {"embedded-shared": config["models"]["embedded-shared"]}
    return {**config, "operators": {"plural": config["operators"]["plural"]}, "models": models}


def test_verdicts_that_a_configuration_leaves_undefined(tmp_path):
    assert list(undefined_verdicts(DEFAULT)) == []
    (few,) = undefined_verdicts(DEFAULT | {"matched_seeds": 1})
    assert few.startswith("config key matched_seeds: ")
    assert list(undefined_verdicts(DEFAULT | {"matched_seeds": 0})) == []
    (one,) = undefined_verdicts(DEFAULT | {"operators": {"addition": "a + b"}})
    assert "'Specific to this operator?' is undefined" in one
    for repeated, said in ((8, ["8 of 28 rows", "'More than the answer?'"]), (10, None)):
        answers = [*range(100, 120), *range(200, 200 + repeated // 2), *range(200, 200 + repeated // 2)]
        config = only_table(tmp_path, answers)
        config_check.check(config | {"train_prompts": 2}, SCHEMA)
        found = [sentence for sentence in undefined_verdicts(config) if "one operator" not in sentence]
        assert len(found) == (said is not None)
        assert all(part in found[0] for part in said or [])


def test_a_changed_table_is_checked_again(tmp_path):
    config, remembered = with_table(tmp_path), tmp_path / "remembered"
    config_check.check(config, SCHEMA, remembered)
    before = remembered.read_bytes()
    with_table(tmp_path, "word,answer\nmouse,mice\nman,men\ngoose,geese\n")
    config_check.check(config, SCHEMA, remembered)
    assert remembered.read_bytes() != before


def with_digit(**operator):
    """The default configuration with an operator that asks a digit."""
    config = copy.deepcopy(DEFAULT)
    config["operators"]["tens"] = {"expression": "a + b", "digit": 1, **operator}
    for one in config["formats"].values():
        one["templates"]["tens"] = one["templates"]["addition"]
    return config


def with_digits(template="{a}+{b}=", **operator):
    """A configuration that asks one digit alone, of a model whose tokenizer splits numbers."""
    one = {"expression": "a + b", "digit": 1, "operands": {"answer_max": 199}, **operator}
    return {
        **DEFAULT,
        "models": {"m": {"source": "embedded:embedded-digits"}},
        "operators": {"tens": one},
        "formats": {name: {"templates": {"tens": template}} for name in ("symbolic", "code")},
        "k": [10, 50],
        "specificity_tasks": {},
    }


def test_digits_need_answers_of_one_length():
    config_check.check(with_digits(operands={"answer_max": 99}), SCHEMA)
    config_check.check(with_digits(operands={"answer_min": 100, "answer_max": 199}), SCHEMA)


@pytest.mark.parametrize("formats", [("symbolic", "code"), ("prose", "code")])
def test_tasks_on_numbers_that_no_operator_asks(tmp_path, formats):
    """The default tasks apply to formats of their names; a tokenizer that splits numbers cannot do them."""
    config = {**with_digits(operands={"answer_max": 99}), "specificity_tasks": SHIPPED["specificity_tasks"]}
    config["formats"] = {name: {"templates": {"tens": "{a}+{b}="}} for name in formats}
    (tmp_path / "plural.csv").write_text("word,answer\nmouse,mice\nman,men\nox,oxen\n")
    table = {"plural": {"table": str(tmp_path / "plural.csv")}}
    forms = {name: {"templates": {"plural": "{word} ="}} for name in formats}
    for given in (config, {**config, "operators": table, "formats": forms}):
        text = sentence(given)
        assert text.startswith("config key specificity_tasks: comparing in format code asks whole numbers, as no")
        assert text.endswith("write specificity_tasks: {}")
        assert "operand_max" not in text
        config_check.check({**given, "specificity_tasks": {}}, SCHEMA)
        other = {("prose" if name == "code" else "verse"): one for name, one in given["formats"].items()}
        config_check.check({**given, "formats": other}, SCHEMA)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (with_digit(digit=-1), ["config key operators.tens", "digit: 0"]),
        (with_digit(operands={"operand_mix": 3}), ["config key operators.tens", "operands: LIMITS"]),
        (with_digit(digit=3), ["digit 3 of 'a + b'", "99, is 1"]),
        # The embedded models' tokenizer keeps numbers whole.
        (with_digit(), ["formats.symbolic.templates.tens", "the digit must be the next token"]),
        ({**with_digit(), "corrupt": "across_operators"}, ["config key corrupt: tens asks for a digit"]),
        (
            with_digits(),
            [
                "config key operators.tens: digit 1 of 'a + b' has not the same place in all answers",
                "2 to 3 digits; narrow answer_min and answer_max under operands, for instance to 100 and 999",
            ],
        ),
        (with_digits(template=f"{BOS}{{a}}+{{b}}="), ["formats.symbolic.templates.tens", "begins every prompt"]),
        (
            with_digits(template="{a}{b}=", operands={"operand_min": 1, "answer_min": 10, "answer_max": 99}),
            ["formats.symbolic.templates.tens", "the same prompt", "put a sign between {a} and {b}"],
        ),
    ],
)
def test_mistakes_in_a_digit(config, expected):
    found = sentence(config)
    assert all(part in found for part in expected), found


def test_an_operator_may_have_limits_of_its_own():
    config = copy.deepcopy(DEFAULT)
    small = {"operand_min": 6, "operand_max": 30, "answer_min": 3, "answer_max": 60}
    config["operators"]["addition"] = {"expression": "a + b", "operands": small}
    config_check.check(config, SCHEMA)
    config["operators"]["addition"]["operands"] = {**small, "answer_min": 900}
    assert "no pair of 6..30 has an answer of 'a + b' within 900..60" in sentence(config)
