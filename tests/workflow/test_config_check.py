"""Every mistake in a configuration is reported in one sentence, with what is right."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from configurations import ROOT, SCHEMA, SHIPPED, with_value
from hostile_values import refusal

from form_invariance.errors import UserError
from form_invariance.experiment.membership import most_shown
from form_invariance.workflow import config_check, model_checks
from form_invariance.workflow.undefined import undefined_verdicts

pytestmark = pytest.mark.slow

# Smaller operands and one model: every template is checked with each operand and tokenizer.
BOS = "<|begin_of_text|>"
DEFAULT = SHIPPED | {"operands": SHIPPED["operands"] | {"operand_max": 30, "answer_max": 99}}
DEFAULT |= {"models": {"embedded-shared": SHIPPED["models"]["embedded-shared"]}}
DEFAULT |= {"train_prompts": 2, "eval_prompts": 1}


def changed(path, value) -> dict:
    """The default configuration with one value changed; `...` as a value deletes the key."""
    return with_value(DEFAULT, path, value)


def sentence(config: dict) -> str:
    return refusal(config_check.check, config, SCHEMA)[1]


MODEL = "models/embedded-shared"
TEMPLATE, VARIANTS = "formats/symbolic/templates/addition", "formats/word/variants/addition"
TASK = "specificity_tasks/mine"
MISTAKES = [
    # What the schema says.
    ("sede", 1, "'sede'; did you mean 'seed'"),
    ("seed", ..., "'seed' is missing"),
    ("seed", 1.0, "seed: 1.0 is wrong; it must be a whole number"),
    ("ranking", "ie", "ranking: 'ie' is wrong; it must be effect or probability"),
    (f"{MODEL}/device", "cpu\n", r"device: .* auto, cpu"),
    (TASK, {"templates": {}}, "specificity_tasks.mine: write one of expression .* and table"),
    # Names.
    ("models/figures", {"source": "embedded:embedded-shared"}, "models: the name 'figures' is reserved"),
    ("results", "src/results", "results: 'src' is a folder of the project"),
    ("specificity_tasks/addition", {"expression": "a", "templates": {}}, "tasks.addition: choose another name"),
    (("formats", "symbolic", "templates", False), "{a}+{b}=", "templates: False is wrong; it must be a name"),
    ("formats/code_to_word", SHIPPED["formats"]["symbolic"], "formats: 'code_to_word' contains '_to_'"),
    # Values that limit one another, or that the model limits.
    ("k", [50, 1100], "key k: 1100 is larger than the 1032 neurons .*embedded-shared"),
    ("candidates", 100, r"key k: 150 is larger than candidates \(100\)"),
    ("k_shown", 300, r"k_shown: 300 is not in k .*150"),
    ("late_from", 6, "late_from: 6 must be below 6.*embedded-shared"),
    ("census_pairs", 2, "operators.addition: a census asks 2 problems.* need 3 right answers; raise census_pairs"),
    ("operands/operand_max", 5, r"operands: no number is in 6\.\.5; operand_max"),
    ("operands/operand_max", 10**6, "operands with the tokenizer of embedded-shared: .*splits the number 1000"),
    ("specificity_text", "none.txt", "specificity_text: there is no file 'none.txt'"),
    (f"{MODEL}/source", "embedded:shared", r"models\.embedded-shared\.source: .*embedded:embedded-shared"),
    # Operators, templates and variants.
    ("operators/modulo", "a % b", "'modulo' has no template; add one"),
    ("operators/addition", "a +", "'a \\+' cannot be read"),
    (TEMPLATE, "{a}+", r"formats\.symbolic\.templates\.addition: .*{b}"),
    (TEMPLATE, BOS + "{a}+{b}=", r"templates\.addition.* begins every prompt"),
    (TEMPLATE, "{a}{b}", r"templates\.addition with the tokenizer of embedded-shared.*'{a}{b}'.*tokens"),
    ("formats/symbolic/variants/additon", ["{a}+{b}="], "variants: 'additon' .* did you mean 'addition'"),
    (TEMPLATE, "{a}+{b}\0=", r"symbolic\.templates\.addition: .* argument of a command: remove its character NUL"),
    (VARIANTS, ["{a} plus {b} is {a}"], r"word\.variants\.addition\[0\]: .*once each"),
    (VARIANTS, ["{a} and {b} are ", "{a}{b}"], r"variants\.addition\[1\] with the tokenizer of embedded-shared"),
    ("variant_operators", ["additon"], "variant_operators: 'additon' .* did you mean 'addition'"),
    # Tasks on numbers.
    (TASK, {"expression": "max(a, b)", "templates": {"code": "{a}="}}, r"mine\.templates\.code: .*{b}"),
    (TASK, {"expression": "a", "templates": {"word": "It is {a}"}}, r"templates\.word .*next token"),
]


@pytest.mark.parametrize(("path", "value", "said"), MISTAKES)
def test_a_mistake_is_one_sentence(path, value, said):
    found = sentence(changed(path, value))
    assert re.search(said, found), found


def test_a_text_that_the_locale_cannot_encode_is_named(monkeypatch):
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("ascii"))
    said = "config key formats.word.variants.addition.1: .* ascii has no '\\\\xe9'; .* set PYTHONUTF8=1"
    assert re.fullmatch(said, sentence(changed(VARIANTS, ["{a} and {b} are ", "caf\xe9 {a}, {b}: "])))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("variant_operators", ...), ("specificity_tasks", ...), ("specificity_tasks", {})),
        (TASK, {"expression": "a", "templates": {"code": "{a}={a}=", "nowhere": "It is {a}"}}),
        *(("candidates", 150), ("k", [50, 1032]), ("late_from", 5)),
        ("models/hub", {"source": "owner/odd..name", "revision": "refs/pr/7"}),
        ("operators/addition", {"expression": "a + b", "operands": {"operand_max": 30, "answer_max": 60}}),
    ],
)
def test_what_is_right_is_accepted(path, value):
    """A model of the hub is checked only in its job."""
    config_check.check(changed(path, value), SCHEMA)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model_type": "mamba"}, "MambaForCausalLM.* has none of the parts"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1.0, "factor": 2.0}}, "scaling 'dynamic'"),
    ],
)
def test_a_model_that_the_engine_does_not_read_is_refused_before_any_job(packaged_copy, keys, said):
    raw = json.loads((packaged_copy / "config.json").read_text())
    (packaged_copy / "config.json").write_text(json.dumps(raw | keys))
    found = sentence(changed(f"{MODEL}/source", str(packaged_copy)))
    assert re.search(said, found), found


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


def test_the_slow_checks_are_remembered_and_only_for_what_they_saw(tmp_path, packaged_copy):
    remembered = tmp_path / "remembered"
    config = changed("models/embedded-shared/source", str(packaged_copy))
    remembered.write_bytes(b"\xff\xfe")  # damaged
    config_check.check(config, SCHEMA, remembered)
    first = remembered.read_text(errors="replace")
    config_check.check(config, SCHEMA, remembered)
    assert remembered.read_text(errors="replace") == first
    # The file keeps its length and its time stamps.
    path = packaged_copy / "tokenizer.json"
    stamps = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text("{}".ljust(path.stat().st_size))
    os.utime(path, ns=stamps)
    with pytest.raises(UserError, match="tokenizer"):
        config_check.check(config, SCHEMA, remembered)
    assert remembered.read_text(errors="replace") == first


def test_prompts_are_checked_once_for_each_tokenizer(tmp_path, packaged_copy, monkeypatch):
    checked, other = [], shutil.copytree(packaged_copy, tmp_path / "other")
    settings = json.loads((other / "tokenizer_config.json").read_text())
    (other / "tokenizer_config.json").write_text(json.dumps(settings | {"add_prefix_space": True}))
    monkeypatch.setattr(model_checks, "_check_prompts", lambda name, *_: checked.append(name))
    sources = {"one": "embedded:embedded-shared", "same": str(packaged_copy), "other": str(other)}
    model_checks.check_models(DEFAULT | {"models": {name: {"source": one} for name, one in sources.items()}}, {})
    assert checked == ["one", "other"]


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


def test_the_check_imports_neither_torch_nor_transformers():
    code = "import sys, form_invariance.workflow.config_check; print({'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def alone(name, operator, template, **keys):
    formats = {form: {"templates": {name: template}} for form in ("symbolic", "code")}
    only = {"operators": {name: operator}, "formats": formats, "variant_operators": [], "specificity_tasks": {}}
    return {**DEFAULT, **only, **keys}


def with_table(folder, text="word,answer\nmouse,mice\nman,men\nox,oxen\n", template="{word}=", **operator):
    (folder / "plural.csv").write_text(text)
    return alone("plural", {"table": str(folder / "plural.csv"), **operator}, template)


def test_an_operator_may_be_a_table(tmp_path):
    config = with_table(tmp_path, "word,plural\nmouse,mice\nman,men\nox,oxen\n", answer="plural")
    # Numbers that the tokenizer splits do not matter if nothing asks for numbers.
    wide = {"operand_min": 0, "operand_max": 5000, "answer_min": 0, "answer_max": 5000}
    config_check.check({**config, "operands": wide}, SCHEMA)
    both = {**config, "operators": config["operators"] | {"addition": "a + b"}}
    for one in both["formats"].values():
        one["templates"]["addition"] = "{a}+{b}="
    config_check.check(both, SCHEMA)


def test_a_changed_table_is_checked_again(tmp_path):
    config, remembered = with_table(tmp_path), tmp_path / "remembered"
    config_check.check(config, SCHEMA, remembered)
    before = remembered.read_bytes()
    with_table(tmp_path, "word,answer\nmouse,mice\nman,men\ngoose,geese\n")
    config_check.check(config, SCHEMA, remembered)
    assert remembered.read_bytes() != before


def test_verdicts_that_a_configuration_leaves_undefined(tmp_path):
    assert list(undefined_verdicts(DEFAULT)) == []
    (few,) = undefined_verdicts(DEFAULT | {"matched_seeds": 1})
    assert few.startswith("config key matched_seeds: ")
    assert list(undefined_verdicts(DEFAULT | {"matched_seeds": 0})) == []
    for change, ranked, most in (({"candidates": 199}, 199, 49), ({"k_shown": 259}, 1032, 258)):
        (large,) = undefined_verdicts(DEFAULT | change)
        assert re.match(rf"config key k_shown: .* of the {ranked} ranked .* up to {most}, ", large)
    for path in (ROOT / "config").glob("*.yaml"):
        shipped = SHIPPED | config_check.load(path)
        assert shipped["k_shown"] <= most_shown(shipped["candidates"]), path
    (dropped,) = undefined_verdicts(DEFAULT | {"best_k": [5, 520, 999], "candidates": 1032})
    assert dropped.startswith("config key best_k: 520, 999 above half of candidates (1032) ")
    (one,) = undefined_verdicts(DEFAULT | {"operators": {"addition": "a + b"}})
    assert "'Specific to this operator?' is undefined" in one
    for repeated, said in ((8, ["8 of 28 rows", "'Does a donor carry more than the answer?'"]), (10, None)):
        answers = [*range(100, 120), *range(200, 200 + repeated // 2), *range(200, 200 + repeated // 2)]
        rows = "".join(f"w{row},{answer}\n" for row, answer in enumerate(answers))
        config = with_table(tmp_path, f"word,answer\n{rows}", "{word} = ")
        config_check.check(config, SCHEMA)
        config |= {"train_prompts": 6, "eval_prompts": 6}
        found = [sentence for sentence in undefined_verdicts(config) if "one operator" not in sentence]
        assert len(found) == (said is not None)
        assert all(part in found[0] for part in said or [])


def test_a_table_that_is_short_or_has_long_answers_is_named(tmp_path):
    rows = "".join(f"w{row},{row + 100}\n" for row in range(38))
    config = with_table(tmp_path, f"word,answer\n{rows}w38,594 apples\nw39,12345\n", "{word} = ")
    taken = len(config["formats"]) * 20
    for prompts, short in ((taken // len(config["formats"]), 40 <= taken), (2, False)):
        sizes = {"train_prompts": prompts // 2, "eval_prompts": prompts // 2}
        said = list(undefined_verdicts(config | sizes))
        found = [sentence for sentence in said if "the table has 40 rows" in sentence]
        assert len(found) == short
        for sentence in found:
            assert f"take up to {taken} train and eval prompts" in sentence
            assert f"eval_prompts to {39 // len(config['formats'])}, or add rows" in sentence
        (long,) = (sentence for sentence in said if "several tokens" in sentence)
        assert "operators: 2 of 40 answers" in long
        assert "'594' of '594 apples'" in long


DIGITS = {"models": {"m": {"source": "embedded:embedded-digits"}}, "k": [10, 50]}
"""A model whose tokenizer splits numbers."""


def tens(template="{a}+{b}=", digit=1, operands=None, **keys):
    limits = {"operand_max": 99, "answer_max": 199} | (operands or {})
    return alone("tens", {"expression": "a + b", "digit": digit, "operands": limits}, template, **keys)


def test_tasks_on_numbers_that_no_operator_asks():
    """The default tasks apply to formats of their names; a tokenizer that splits numbers cannot do them."""
    config = tens(operands={"answer_max": 99}, **DIGITS)
    config_check.check(config, SCHEMA)
    config["specificity_tasks"] = SHIPPED["specificity_tasks"]
    text = sentence(config)
    assert re.match(r"config key specificity_tasks\.copying\.templates\.\w+ with the tokenizer of m: ", text)
    assert text.endswith("or leave it out (specificity_tasks: {} has none)")
    other = dict(zip(("prose", "verse"), config["formats"].values(), strict=True))
    config_check.check({**config, "formats": other}, SCHEMA)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (alone("sum", "a*b+c", "{a}*{b}+{c}="), r"operators\.sum: .* 'a\*b\+c' has the variable 'c', .* a table"),
        (tens(digit=3, operands={"operand_max": 30, "answer_max": 99}), "digit 3 of 'a \\+ b'.*60, is 1"),
        # The tokenizer keeps numbers whole.
        (tens(operands={"answer_max": 99}), r"symbolic\.templates\.tens .*the digit must be the next token"),
        (tens(corrupt="across_operators"), "config key corrupt: tens asks for a digit"),
        (tens(**DIGITS), "operators.tens: digit 1 .* does not have the same place.* for instance to 100 and 999"),
        (
            tens("{a}{b}=", operands={"operand_min": 1, "answer_min": 10, "answer_max": 99}, **DIGITS),
            r"symbolic\.templates\.tens: .*the same prompt.*put a sign between",
        ),
        (
            alone("plural", {"table": "none.csv"}, "{word}="),
            rf"operators\.plural: .*none\.csv does not exist; a relative path starts in {re.escape(os.getcwd())}$",
        ),
        (
            alone("plural", {"table": str(ROOT / "config/tables/plural.csv")}, "{word} {wrod}="),
            r"formats\.symbolic\.templates\.plural.* write {word} in place of {wrod}",
        ),
        (
            alone("sum", {"expression": "a + b", "operands": {"operand_max": 30, "answer_min": 900}}, "{a}+{b}="),
            "no pair of 6..30 has an answer of 'a \\+ b' within 900..99",
        ),
    ],
)
def test_a_mistake_in_an_operator_is_one_sentence(config, said):
    found = sentence(config)
    assert re.search(said, found), found
