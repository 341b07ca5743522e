"""Scout: planted truths that it must find, and configurations that must run as they are."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import kept
import numpy as np
import pandas as pd
import pytest
import yaml
from stub_checkout import ROOT
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from form_invariance import load_model
from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic
from form_invariance.problems.templates import check_fields, fill
from form_invariance.scouting import lowering, proposal, questions, scout_command, sizes, trial, writing
from form_invariance.scouting.choice import choose, is_enough, left_out, search, untried
from form_invariance.scouting.other_tasks import other_tasks
from form_invariance.scouting.questions import AskedQuestion, draw
from form_invariance.scouting.wordings import of_table, with_examples
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.workflow import config_check
from form_invariance.workflow.given import left_out as of_default

KNOWN = {"symbolic": "{a}+{b}=", "code": "a = {a}\nb = {b}\nprint(a + b)  # "}
"""What embedded-shared was trained on."""
NEEDED = ["--model", "embedded:embedded-shared", "--tflops", "0.05", "--minutes", "10"]


@pytest.fixture
def sums(tmp_path):
    """A table of 60 sums; embedded-shared knows these in its templates alone."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(10, 400, (60, 2)), columns=["a", "b"]).drop_duplicates()
    rows.assign(answer=rows["a"] + rows["b"]).to_csv(tmp_path / "sums.csv", index=False)
    return tmp_path / "sums.csv"


def checked(path):
    return config_check.read(config_check.load(path), ROOT / "config")


def test_the_wording_that_the_model_knows_is_chosen():
    run = load_model("embedded:embedded-shared", device="cpu")
    wordings = {
        "symbolic": ("Calculate: {a} + {b} = ", KNOWN["symbolic"]),
        "code": (KNOWN["code"], ">>> {a} + {b} == "),
        "word": ("Ann has {a} pens and gets {b} more. Now she has ",),
    }
    asked = AskedQuestion("addition", Arithmetic("a + b", OperandRange(6, 99, 3, 99)), wordings)
    unknown = replace(asked, wordings=dict.fromkeys(wordings, ("sum of {a} and {b}: ",)))
    chosen, trials = search(run.model, run.tokenizer, {"unknown": [unknown], "known": [asked]}, 0)
    found = trials[trials["chosen"]]
    assert chosen == [asked]
    assert found["template"].tolist() == list(KNOWN.values())
    assert set(found["level"]) == {"known"}
    assert (found["right"] > 0.8).all()
    assert len(trials) == 12 + 20


def test_the_configuration_of_a_table_runs_as_it_is(sums, tmp_path, capsys, monkeypatch):
    output, own, written = tmp_path / "mine.yaml", tmp_path / "mine_sums.csv", []
    # As if a row had been an example.
    monkeypatch.setattr(proposal, "tables_without_examples", lambda *_: {"sums": sums.read_text()})
    monkeypatch.setattr(sizes.machine, "cores", lambda: 4)  # a step's time depends on them
    write = scout_command.write_text
    monkeypatch.setattr(scout_command, "write_text", lambda path, text: [write(path, text), written.append(path)])
    given = ["--template", *(f"{name}/sums={text}" for name, text in KNOWN.items())]
    words = ["scout", *NEEDED, "--table", str(sums), *given, "--output", str(output)]
    assert main(words) == 0
    config, said = checked(output), capsys.readouterr().out
    assert {name: one["templates"]["sums"] for name, one in config["formats"].items()} == KNOWN
    for name in ("sentence", "question"):
        reason = f"Left out: format {name}: the best wording of sums in {name} has 0% right answers"
        assert reason in said
        assert reason in output.read_text()
    assert config["operators"] == {"sums": {"table": str(own)}}
    assert (written, own.read_text()) == ([own, output], sums.read_text())
    assert config["train_prompts"] + config["eval_prompts"] < config["census_pairs"] == len(pd.read_csv(sums))
    assert config["results"] == "results/mine"
    assert not [*of_default(config, config_check.load(ROOT / "config/config.yaml"))]
    assert f"snakemake --configfile {output}" in said
    kept.check("scout", {"numbers": kept.of_markup((said + output.read_text()).replace(str(tmp_path), ""))[""]})
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    monkeypatch.setattr("form_invariance.scouting.choice.trials", None)
    with pytest.raises(TypeError):
        main([*words, "--force"])
    assert "sums" in checked(output)["operators"], "what is there is kept until there is another"


def test_the_first_digit_is_the_one_with_the_highest_place():
    question = AskedQuestion("sum", Arithmetic("a + b", OperandRange()), {}, digits=3)
    assert writing.operators_of(question) == {"sum_hundreds": 0, "sum_tens": 1, "sum_units": 2}


def test_a_trial_is_as_good_as_its_worst_digit(packaged, monkeypatch):
    right = np.array([[True, False], [True, True]])
    monkeypatch.setattr(trial, "ask_every_digit", lambda *_: {"correct": right})
    task = Arithmetic("a + b", OperandRange(10, 99, 10, 99), 1)
    question = AskedQuestion("sum", task, {"symbolic": ("{a}+{b}=",)}, digits=2)
    (row,) = trial.trials(None, packaged["embedded-digits"][1], [question], 0, [0]).to_dict("records")
    assert (row["misfit"], row["right"], row["by_digit"]) == ("", 0.5, [1.0, 0.5])


def test_hopeless_wordings_end_early_and_trials_end_in_time(packaged, monkeypatch):
    asked = []

    def ask(model, tokenizer, prompts, wanted):
        asked.append(len(prompts))
        return {"correct": np.full(len(prompts), prompts[0].endswith("="))}

    monkeypatch.setattr(trial, "ask", ask)
    wordings = {"x": ("{a}+{b}=", "{a} {b} is "), "y": ("{a} and {b}=",)}
    question = AskedQuestion("sum", Arithmetic("a + b", OperandRange(6, 99, 3, 99)), wordings)
    given = [None, packaged["embedded-shared"][1], [question], 0, [0]]
    every = trial.trials(*given)
    assert asked == [8, 16, 8, 16, 8]
    assert every["wording"].tolist() == ["{a}+{b}=", "{a} {b} is ", "{a} and {b}="]
    assert every["right"].tolist() == [1, 0, 1]
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=iter(range(9)).__next__))
    found = trial.trials(*given, until=0.5)
    assert found["wording"].tolist() == ["{a}+{b}=", "{a} and {b}="]
    assert untried([question], found, 0) == ["1 of 3 trials: more take over a tenth of --minutes"]
    assert untried([question], every, 0) == []


@pytest.mark.nightly
def test_digits_are_operators(tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "_DIGITS", (2,))
    output = tmp_path / "mine.yaml"
    words = ["scout", "--model", "embedded:embedded-digits", "--tflops", "0.05", "--minutes", "60"]
    assert main([*words, "--output", str(output)]) == 0
    config, theirs = checked(output), config_check.load(ROOT / "config/digits.yaml")
    digits = {f"{name}_{place}" for name in ("addition", "subtraction") for place in ("tens", "units")}
    assert set(config["operators"]) == digits
    assert config["operands"] == theirs["operands"]
    for name, one in theirs["formats"].items():
        ours, own = config["formats"][name]["templates"], one["templates"]
        assert (ours["addition_tens"], ours["subtraction_units"]) == (own["sum_tens"], own["difference_units"])


def trials_of(shares, examples=0):
    """Trials from shares of right answers by format, operator and place; each later place has one token more."""
    rows = [
        (name, operator, share, 5 + place, place, examples, "")
        for name, operators in shares.items()
        for operator, own in operators.items()
        for place, share in enumerate(own)
    ]
    return pd.DataFrame(rows, columns=["format", "operator", "right", "tokens", "place", "examples", "misfit"])


@pytest.mark.parametrize("operator", ["addition", "multiplication"])
def test_tasks_that_are_no_operators_fit_the_tokenizer_and_ask_something_else(operator):
    run = load_model("embedded:embedded-shared", device="cpu")
    (asked,) = [one for one in questions.arithmetic(run.tokenizer)["numbers up to 99"] if one.operator == operator]
    found = other_tasks(run.tokenizer, [asked], ["symbolic", "code", "other"])
    names = ["copying", "list", "comparing", "counting"]
    assert list(found) == names + ["product"] * (operator == "addition")
    assert all(set(task["templates"]) == {"symbolic", "code"} for task in found.values())
    assert found["counting"]["expression"] == "a + 1"


SOME, BOTH = {"+": [0.4], "-": [0.2]}, {"+": [0.9], "-": [0.9]}
CHOICES = [  # shares of right answers by format, operator and place; the places that are chosen
    ({"x": {"+": [1.0, 0.75, 0.2]}, "y": {"+": [0.95, 0.6, 0.1]}}, {("x", "+"): 1, ("y", "+"): 0}),
    # Fewer tokens.
    ({"x": {"+": [0.9, 0.7, 0.0]}, "y": {"+": [0.3, 0.29, 0.0]}}, {("x", "+"): 0, ("y", "+"): 0}),
    ({"x": {"+": [0.9]}, "y": {"+": [0.29]}}, {}),
    # No operator in common.
    ({"x": {"+": [0.9]}, "y": {"-": [0.9]}}, {}),
    # Three formats with one operator are more cells than one format with two.
    ({"x": BOTH, "y": {"+": [0.9], "-": [0.1]}, "z": SOME}, {(name, "+"): 0 for name in "xyz"}),
    ({"w": BOTH, "x": BOTH, "y": {"+": [0.9]}, "z": {"+": [0.9]}}, {(name, "+"): 0 for name in "wxyz"}),
    ({"x": BOTH, "y": BOTH, "z": SOME}, {(name, sign): 0 for name in "xy" for sign in "+-"}),
]


@pytest.mark.parametrize(("shares", "chosen"), CHOICES)
def test_the_choice_has_the_most_cells_that_the_model_knows(shares, chosen):
    trials = trials_of(shares)
    found = choose(trials)
    assert found.set_index(["format", "operator"])["place"].to_dict() == chosen
    every = set(trials["format"]) == {name for name, _ in chosen}
    assert is_enough(trials, found) == (every and found["right"].min() >= 0.5)


@pytest.mark.parametrize(("easy", "level"), [(0.6, "easy"), (0.4, "hard")])
def test_a_level_that_is_good_enough_is_taken_and_else_the_hardest_with_the_most_cells(easy, level, monkeypatch):
    shares = {"hard": [0.4], "easy": [easy]}
    tried = iter(trials_of({name: {"+": share} for name in "xy"}) for share in shares.values())
    monkeypatch.setattr("form_invariance.scouting.choice.trials", lambda *_: next(tried).assign(misfit=""))
    task = Arithmetic("a + b", OperandRange(6, 99, 3, 99))
    levels = {name: [AskedQuestion("+", replace(task, digit=number), {})] for number, name in enumerate(shares)}
    found, trials = search(None, None, levels, 0)
    assert found == levels[level]
    assert set(trials.loc[trials["chosen"], "level"]) == {level}


def test_what_is_left_out_has_its_worst_cell_as_the_reason():
    trials = trials_of({"x": BOTH, "y": {"+": [0.9], "-": [0.1]}, "z": SOME})
    (reason,) = left_out(trials, choose(trials))
    assert reason.startswith("operator -: the best wording of - in y has 10% right answers")


def test_all_formats_get_the_same_number_of_examples():
    for by_examples, alike in (
        # Each format alone would choose another number, and formats would then differ in their examples.
        ({0: (0.8, 0.5), 2: (0.6, 0.6)}, {2}),
        ({0: (0.8, 0.8), 2: (0.8, 0.8)}, {0}),  # the fewest of equal ones
        ({0: (0.8, 0.2), 4: (1.0, 0.3)}, {4}),  # only four examples give two formats
        ({0: (0.8, 0.2), 4: (0.2, 0.8)}, set()),
    ):
        parts = [trials_of({"x": {"+": [x]}, "y": {"+": [y]}}, number) for number, (x, y) in by_examples.items()]
        assert set(choose(pd.concat(parts, ignore_index=True))["examples"]) == alike


def test_no_value_of_an_example_is_filled(tmp_path, raw_tokenizer):
    """Rows with {key} are asked, but are no worked examples, whose text a template would fill again."""
    path, tokenizer = tmp_path / "code.csv", PromptTokenizer(raw_tokenizer, None)
    rows = [f"d[{{{'key' if n % 2 else n}}}],k{n},{n + 10}\n" for n in range(40)]
    path.write_text("text,key,answer\n" + "".join(rows))
    examples, problems = draw(questions.of_file(path, 4), 0, 4)
    assert not examples["fields"].str.contains("{key}", regex=False).any()
    assert problems["fields"].str.contains("{key}", regex=False).any()
    made = with_examples(tokenizer, "{text} {key}=", examples.head(2), "here")
    prompts = [fill(made, yaml.safe_load(fields)) for fields in problems["fields"]]
    assert {prompt.rpartition("\n")[0] for prompt in prompts} == {made.rpartition("\n")[0]}
    shown = examples.head(1).assign(fields='{"text": "t", "key": "text"}')
    with pytest.raises(UserError, match=r"^here: a worked example has {text}, which"):
        with_examples(tokenizer, "{text}: {{key}}=", shown, "here")


def test_worked_examples_keep_the_braces_of_latex(raw_tokenizer):
    tokenizer = PromptTokenizer(raw_tokenizer, None)
    shown = pd.DataFrame({"fields": ['{"country": "France"}'], "text": ["Paris"]})
    made = with_examples(
        tokenizer, r"\mathrm{{capital}}(\text{{country}}) = \text{{answer}} % {{x}}", shown, "here"
    )
    check_fields(made, "here", ["country"])
    first, second = fill(made, {"country": "Peru"}).splitlines()
    assert first == r"\mathrm{capital}(\text{France}) = \text{Paris} % {x}"
    assert second == r"\mathrm{capital}(\text{Peru}) = \text{"


def test_an_example_has_the_space_that_the_tokens_of_its_answer_have():
    words = ["of", " f", " is", " Paris", "Paris", "=", "f", " ", "?"]
    vocabulary = {word: number for number, word in enumerate(words)}
    for pattern, text, shots in (
        (r" ?\w+|=", "of {a} is", "of f is Paris\nof f is=\n"),
        (r"\w+|=", "of {a}=", "of f=Paris\nof f==\n"),
    ):
        tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="?"))
        tokenizer.pre_tokenizer = Split(Regex(pattern), "isolated")
        shown = pd.DataFrame({"fields": ['{"a": "f"}'] * 2, "text": ["Paris", "="]})
        assert with_examples(PromptTokenizer(tokenizer, None), text, shown, "") == shots + text
        # A space that is typed before the answer is kept in the examples, and the prompt ends without it.
        typed = with_examples(PromptTokenizer(tokenizer, None), "{a}= {answer}", shown, "", words=True)
        assert typed == "f= Paris\nf= =\n{a}="


@pytest.mark.parametrize("operator", list(questions.EXPRESSIONS))
def test_examples_are_right_and_no_problems(operator, raw_tokenizer):
    expression, tokenizer = questions.EXPRESSIONS[operator], PromptTokenizer(raw_tokenizer, None)
    examples, problems = draw(AskedQuestion(operator, Arithmetic(expression, OperandRange(6, 99, 3, 99)), {}), 3)
    shown, asked = ([*map(tuple, some[["a", "b", "answer"]].to_numpy())] for some in (examples, problems))
    assert len(shown) == examples["answer"].nunique() == max(questions.EXAMPLES)
    assert not {*shown} & {*asked}
    for a, b, answer in shown:
        assert answer == eval(expression, {"a": a, "b": b})
    for template, line in (("{a} ? {b} = ", "{} ? {} = {}\n"), ("f[{a}, {b}] = ({answer})", "f[{}, {}] = ({})\n")):
        question = template.partition("{answer}")[0]
        for count in (0, 2):
            expected = "".join(line.format(*row) for row in shown[:count]) + question
            assert with_examples(tokenizer, template, examples.head(count), "here") == expected


def test_wordings_of_a_table_have_its_column_names_and_not_its_files(sums):
    assert of_table("sister-city", ["name"])["code"][1] == 'print(sister_city("{name}"))  #'
    assert questions.of_file(sums).wordings["sentence"][0] == "The answer to {a}, {b} is"
    assert "sums" not in str(questions.of_file(sums).wordings)


def test_a_wording_is_typed_as_it_is_shown():
    for typed, wording in ((r"Q: {a}\nA:", "Q: {a}\nA:"), (r"\\neq \\\\ {a}", r"\neq \\ {a}")):
        assert scout_command._templates([f"x/y={typed}"]) == {("x", "y"): [wording]}
        trials = trials_of({"x": {"y": [0.5]}}).assign(wording=wording, by_digit=[[0.5]], chosen=True, level="")
        assert f'"{typed}"' in writing.table(trials)
    assert scout_command._templates([r"x/y=\mathrm{{{a}}}"]) == {("x", "y"): [r"\mathrm{{{a}}}"]}


def test_worked_examples_leave_the_table(sums):
    sums.write_text(re.sub(r"(?m),(\w+)$", r',"c, d",\1', sums.read_text()))
    question = questions.of_file(sums)
    chosen = pd.DataFrame({"operator": ["sums", "sums"], "examples": [0, 2]})
    header, *left = proposal.tables_without_examples([question], chosen, 0)["sums"].splitlines()
    shown = [yaml.safe_load(fields) for fields in draw(question, 0)[0].head(2)["fields"]]
    gone = [f'{one["a"]},{one["b"]},"c, d",{int(one["a"]) + int(one["b"])}' for one in shown]
    assert [header, *sorted([*left, *gone])] == ['a,b,"c, d",answer', *sorted(sums.read_text().splitlines()[1:])]
    assert proposal.tables_without_examples([question], chosen.head(1), 0) == {}


def census(rows, right):
    """A census of a table with this number of rows, `right` of them right."""
    number, correct = np.arange(rows), np.random.default_rng(1).permutation(rows) < right
    columns = dict.fromkeys(("a", "answer", "answer_token"), number)
    columns |= dict.fromkeys(("target", "fields", "prompt"), number.astype(str))
    columns |= {"correct": correct, "whole_correct": correct, "uniform": True, "b": -1, "digit": -1, "carry": -1}
    return pd.DataFrame(columns)


def test_the_shown_circuit_is_at_most_a_quarter_of_what_is_ranked():
    for candidates, shown in ((3, 1), (16, 4), (100, 20), (9000, 50)):
        every, few = sizes.circuits(candidates), sizes.circuits(candidates, few=True)
        assert every["k_shown"] == few["k_shown"] == shown <= max(candidates / 4, 1)
        assert set(few["k"]) == {min(every["k"]), shown, max(every["k"])} <= set(every["k"])


@pytest.mark.parametrize(("rows", "right"), [(62, 25), (62, 60), (500, 250), (40, 20)])
def test_the_sizes_of_a_table_are_those_that_its_right_rows_give(rows, right):
    own = {(name, "t"): (census(rows, right), name) for name in ("x", "y")}
    steps = sizes.steps(rows, right / rows)
    assert all(2.8 * (step["train_prompts"] + step["eval_prompts"]) <= right for step in steps[1:])
    found = sizes.of_tables(steps[-1], own, 0)
    choice = Choice(found["train_prompts"], found["eval_prompts"], found["corrupt_seeds"], 0)
    for table, template in own.values():
        dataset, _ = make_dataset({"t": (table, template)}, "t", choice)
        assert table.set_index("a").loc[dataset["a"], "correct"].all()
    assert 2 * found["train_prompts"] <= right
    assert found["census_pairs"] == rows


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--template", "code/sum={a}"], "'sum' is not among the operators sums"),
        (["--template", "code/sums=sum: "], "must have at least one of the table's fields, {a}, {b}"),
        (["--template", "code/sums={a} {answer} {b}"], "has {b} after {answer}; put all fields before it"),
        (["--force", "--output", "sums.csv"], "is a folder or an input; name another file"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_tried(sums, capsys, monkeypatch, words, sentence):
    monkeypatch.setattr("form_invariance.scouting.choice.trials", None)  # before anything is tried
    monkeypatch.chdir(sums.parent)
    before, output = sums.read_bytes(), [] if "--output" in words else ["--output", "mine.yaml"]
    assert main(["scout", *NEEDED, *output, "--table", "sums.csv", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in sums.parent.iterdir()] == ["sums.csv"]
    assert sums.read_bytes() == before


@pytest.fixture
def digits_experiment():
    """Three digits, two operators, three formats, many tasks."""
    task = Arithmetic("a + b", OperandRange(100, 999, 100, 999), 2)
    asked = [AskedQuestion("sum", task, {}, 3), AskedQuestion("less", replace(task, expression="a - b"), {}, 3)]
    right = {"x": (0.9, 0.7), "y": (0.9, 0.8), "z": (0.6, 0.5)}
    shares = {name: {"sum": [sums], "less": [differences]} for name, (sums, differences) in right.items()}
    chosen = trials_of(shares).assign(template="{a}?{b}=", by_digit=[[0.9]] * 6)
    bases = {"copying": "a", "list": "a", "comparing": "max(a, b)", "counting": "a + 1"}
    templates = {"templates": dict.fromkeys("xyz", "{a}=")}
    tasks = {}
    for name, text in bases.items():
        tasks |= {f"{name}_{digit}": {"expression": text, "digit": digit, **templates} for digit in range(3)}
    settings = {"source": "nobody/large-1.5b"}
    return writing.Experiment(settings, 9000, asked, chosen, {}, tasks, 0)


def test_what_is_left_out_goes_in_order_until_the_minutes_are_kept(digits_experiment, monkeypatch):
    """At each constructed rate the experiment fits, and is the first that does."""
    monkeypatch.setattr(sizes, "seconds", lambda config, name, rate: cost(config) / rate)

    def cost(config):
        cells = len(config["operators"]) * len(config["formats"])
        once = config["train_prompts"] * config["candidates"] + 40 * config["eval_prompts"] * len(config["k"])
        return cells * (once + 3000 * len(config["specificity_tasks"]))

    kinds, costs, before = [], [], np.inf
    steps = sizes.steps(np.inf, 0.9)
    for smaller, settings, kind, _ in lowering.smaller(digits_experiment, steps):
        config = yaml.safe_load(writing.configuration(smaller, settings))
        costs.append(cost(config))
        assert costs[-1] <= before
        before = costs[-1]
        kinds += [kind] * (kind not in kinds)
        assert config["k_shown"] in config["k"]
        assert config["k_shown"] <= config["candidates"] / 4
    assert kinds == ["", "tasks", "k", "candidates", "prompts", "digits", "operator", "format"]
    assert set(config["operators"]) == {"sum_tens", "sum_units"}
    assert set(config["formats"]) == {"x", "y"}
    assert set(config["specificity_tasks"]) == {"copying_2", "comparing_2"}
    for number in (0, 1, 2, 5, len(costs) - 1):
        _, config, seconds, left_out = proposal.fit(digits_experiment, {}, costs[number] / 3599, 3600)
        assert seconds <= 3600
        assert cost(config) == costs[number], number
        assert len(left_out) == min(number, 3) + (number > 7) * 4
    assert left_out[0].startswith("tasks copying_0, copying_1, list_0, ")
    minutes = math.ceil(costs[0] / costs[-1] * 3599 / 60)
    assert left_out[0].endswith(f": with them the experiment takes {minutes} minutes")
    last = [one.partition(":")[0] for one in left_out[4:]]
    assert last == ["digits before the tens", "operators less", "formats z"]
    with pytest.raises(UserError, match=r"^--minutes 60: the smallest experiment takes about 120 minutes"):
        proposal.fit(digits_experiment, {}, costs[-1] / 7199, 3600)


def test_a_name_stays_a_name_in_yaml():
    for name in ("no", "null", "sums", "1e3", "a b", "ja: nein"):
        assert yaml.safe_load(f"{writing._key(name)}: 1") == {name: 1}


def test_every_job_reads_the_model(monkeypatch):
    """The time of reading counts once for each job, divided by the cores."""
    config = config_check.load(ROOT / "config/config.yaml")
    operators, found = len(config["operators"]), []
    for seconds in (100, 160):
        monkeypatch.setattr(sizes.job_costs, "reading_seconds", lambda _, seconds=seconds: seconds)
        found.append(sizes.seconds(config, "embedded-shared", np.inf))
    jobs = 3 * len(config["formats"]) * operators + 3 * operators + 12
    assert found[1] - found[0] == pytest.approx(60 * jobs / sizes.machine.cores())
    start = 100 - sizes.job_costs.STARTING + sizes._STARTING
    cells = {"heuristics": len(config["formats"]) * operators, "agreement": operators, "heuristic_null": operators}
    tables = sum(n * sizes.job_costs.table_seconds(config, "embedded-shared")[rule] for rule, n in cells.items())
    assert found[0] == pytest.approx((start * jobs + tables) / sizes.machine.cores())
    rules = {*sizes.job_costs.OPERATIONS} - {"row_activations", "precision"}
    work = sum(sizes.job_costs.operations(rule, config, "embedded-shared", {}) for rule in rules)
    assert sizes.seconds(config, "embedded-shared", 1e9) - found[1] == pytest.approx(work / 1e9)


def test_rows_with_odd_spaces_are_named(sums, capsys):
    sums.write_text(sums.read_text().replace("\n", "\n1\u00a0", 1))
    questions.of_file(sums)
    assert re.fullmatch(r"warning: the table .*: column 'a' has .* in lines 2 .*\n", capsys.readouterr().err)


def test_a_wording_is_tried_on_its_operator_alone_or_on_all_that_have_none_of_their_own(raw_tokenizer):
    given = {("code", ""): ["f({a},{b})="], ("code", "addition"): ["{a} plus {b} = "]}
    usual, found = (questions.levels(PromptTokenizer(raw_tokenizer, None), (), some) for some in ({}, given))
    for name, level in found.items():
        for before, after in zip(usual[name], level, strict=True):
            assert {"code"} < {*before.wordings}
            wording = "{a} plus {b} = " if after.operator == "addition" else "f({a},{b})="
            assert after.wordings == {**before.wordings, "code": [wording]}
