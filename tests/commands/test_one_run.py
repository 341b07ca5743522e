"""A run whose prompts differ in length, to its pages; and each of its commands with a file of another run."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file
from unequal_run import MODEL, UNEQUAL, calls_by_command, unequal

from form_invariance.cli import main
from form_invariance.stages.census.table import CENSUS
from form_invariance.tables.files import read_table, stamp_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unequal(tmp_path_factory)


def test_prompts_of_unequal_lengths_end_in_a_report_and_a_browser(folder):
    cell = folder / "results" / MODEL / "word/pairs"
    assert read_table(cell / "census.parquet", CENSUS)["prompt"].str.len().nunique() > 1
    assert not pd.read_parquet(cell / "row_activations.parquet").empty
    for page in ("report.html", f"browser/{MODEL}.html", "explained.html"):
        assert "sum_units" in (folder / "results" / page).read_text()


FILES = (".parquet", ".safetensors", ".json")
SETTINGS = ("seed", "first_late_layer", "membership", "ranking", "weights")
OF_ANY_MODEL = {("figure", "--tables"), ("paper-tables", "--tables"), ("report", "--answers")}


def files_of(words):
    """The places in a command line of the files that it reads, with their options."""
    option = words[0]
    for place, word in enumerate(words):
        option = word if word.startswith("--") else option
        if word != option and option.startswith("--") and "output" not in option and word.endswith(FILES):
            yield place, option


def restamped(path, to, change):
    """A copy of a file with another stamp."""
    stamp = json.loads(json.dumps(change(stamp_of(path))))
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        to.write_text(json.dumps({"form_invariance": stamp, "content": []}))
    elif path.suffix == ".safetensors":
        save_file(load_file(path), to, {"form_invariance": json.dumps(stamp)})
    else:
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({"form_invariance": json.dumps(stamp)}), to)


def of_another_model(stamp):
    lineage = {model and "other": values for model, values in stamp["lineage"].items()}
    return stamp | {"keys": stamp["keys"] | {"model": "other"}, "lineage": lineage}


def with_value(name, value):
    def change(stamp):
        lineage = {model: {**own, name: value} if name in own else own for model, own in stamp["lineage"].items()}
        return stamp | {"lineage": lineage}

    return change


def with_other_content(stamp):
    return stamp | {"content": dict.fromkeys(stamp["content"], "other")}


def facts(path):
    """The names of a file's lineage, and its own."""
    stamp, names = stamp_of(path), ("model", "format", "operator", "donor", "target", "task")
    keys = "/".join(stamp["keys"][name] for name in names if name in stamp["keys"])
    part = next(iter(stamp["content"]))
    return set().union(*stamp["lineage"].values()), f"{stamp['table']} of {keys}{part}"


def with_word(words, place, word):
    return [*words[:place], str(word), *words[place + 1 :]]


def mixtures(words, tmp_path):
    """Command lines in which one file is of another run: option, name of what differs, words, and that file."""
    places = list(files_of(words))
    said, names = ({place: facts(Path(words[place]))[part] for place, _ in places} for part in (0, 1))
    keys = {place: stamp_of(Path(words[place]))["keys"] for place, _ in places}
    for place, option in places:
        path, others = Path(words[place]), [other for other, _ in places if other != place]
        known = {name for other in others for name in {*said[other], names[other]}}
        known |= {word.removeprefix("--").split("=")[0] for word in words}
        shared = [name for name in sorted(said[place] & known) if " of " not in name]
        changes = {name: with_value(name, "other") for name in shared if name in SETTINGS}
        changes |= {name: with_value(name, "other") for name in sorted(said[place] & known) if " of " in name}
        changes |= {"content": with_other_content} if names[place] in known else {}
        if any("model" in keys[other] for other in others) and (words[0], option) not in OF_ANY_MODEL:
            changes |= {"model": of_another_model} if keys[place] else {}
        for name, change in changes.items():
            to = tmp_path / name.replace("/", "-") / f"{place}{path.suffix}"
            restamped(path, to, change)
            yield option, name, with_word(words, place, to), to
        for key, (own, other) in {"format": ("symbolic", "word"), "operator": ("sum_units", "pairs")}.items():
            value = keys[place].get(key)
            changed = path.parent / path.name
            parts = [{own: other, other: own}.get(part, part) if part == value else part for part in changed.parts]
            to = Path(*parts)
            if value and to != path and to.exists() and any(key in keys[other] for other in others):
                yield option, key, with_word(words, place, to), to


REFUSED = re.compile(
    r"are not of one run|has, or was made from, the |was made with|of the (model|format|operator) |are both |"
    r"must have a file for each|not of the same|give one of each"
)


def test_a_file_of_another_run_is_refused_in_every_place(folder, tmp_path, capsys):
    tried, taken = [], []
    with contextlib.chdir(folder):
        for words in calls_by_command(folder, "heuristics").values():
            for option, what, changed, file in mixtures(words, tmp_path):
                status, said = main(changed), capsys.readouterr().err.strip().splitlines()[-1:]
                refused = status == 2 and REFUSED.search(said[0]) and (str(file) in said[0] or "--" in said[0])
                tried.append((words[0], option, what))
                if not refused:
                    taken.append((words[0], option, what, status, said))
    assert len(tried) > 200
    assert not taken, "\n".join(map(str, taken))


def refused(words, capsys):
    """The last line that a command prints; it must be refused."""
    assert main(words) == 2, words
    return capsys.readouterr().err.strip().splitlines()[-1]


OTHER_VALUES = {"--seed": "99", "--late-from": "1", "--k": "29", "--k-shown": "29", "--membership": "positive"}
OTHER_VALUES |= {"--ranking": "probability"}


def test_a_setting_of_another_run_is_refused_in_every_command(folder, capsys):
    """A command takes any value if none of its inputs has the setting, as the first commands."""
    tried = set()
    with contextlib.chdir(folder):
        for words in calls_by_command(folder).values():
            said = [facts(Path(words[place])) for place, _ in files_of(words)]
            known = {name for names, own in said for name in (*names, own)}
            for option, value in OTHER_VALUES.items():
                name = {"--late-from": "first_late_layer"}.get(option, option.removeprefix("--"))
                name = "circuit of embedded-digits/pairs at k = 30" if name.startswith("k") else name
                matching = [n for n, word in enumerate(words) if word.split("=")[0] == option]
                if not matching or name not in known:
                    continue
                place = matching[0]
                changed = [*words, option, value] if "=" in words[place] else with_word(words, place + 1, value)
                said = refused(changed, capsys)
                assert re.search(rf"was made with {name}|has no circuit of .* at k = {value}", said), changed
                tried.add((words[0], option))
    assert len(tried) > 20


def test_another_model_is_refused_beside_its_files_without_its_record(folder, tmp_path, capsys):
    cell = folder / "results" / MODEL
    words = ["promoted-tokens", "--k", "30", "--output", str(tmp_path / "x.parquet"), "--circuits"]
    words += [str(cell / f"shared/{operator}/circuit.parquet") for operator in UNEQUAL["operators"]]
    assert main([*words, "--model", f"embedded:{MODEL}"]) == 0
    said = refused([*words, "--model", "embedded:embedded-separate"], capsys)
    assert "was made with another model than this command runs" in said


def test_a_tokenizer_of_another_run_is_refused(folder, tmp_path, capsys):
    for name in ("model_files.parquet", "tokenizer.json"):
        shutil.copy(folder / "results" / MODEL / name, tmp_path)
    kept = tmp_path / "tokenizer.json"
    content = json.loads(kept.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["4"], vocabulary["5"] = vocabulary["5"], vocabulary["4"]
    words = ["census", f"--model=embedded:{MODEL}", f"--model-files={tmp_path}/model_files.parquet", "--digit=1"]
    words += ["--expression=a + b", "--operand-min=10", "--operand-max=40", "--answer-min=10", "--answer-max=90"]
    words += ["--template={a}+{b}=", "--format=symbolic", "--operator=x", "--seed=0", "--output"]
    assert main([*words, str(tmp_path / "x.parquet")]) == 0
    kept.write_text(json.dumps(content))
    said = refused([*words, str(tmp_path / "y.parquet")], capsys)
    assert f"{kept} is not the tokenizer that {tmp_path}/model_files.parquet was made with" in said


def test_a_file_under_another_name_does_not_escape_the_comparison(folder, tmp_path, capsys):
    words = calls_by_command(folder)["attribution"]
    place = words.index("--dataset") + 1
    with contextlib.chdir(folder):
        other = shutil.copy(words[place], tmp_path / "dataset.pq")
        assert f"{other}: the name must end in .parquet" in refused(with_word(words, place, other), capsys)


def with_values(words, option, *values):
    place = words.index(option) + 1
    rest = next((n for n in range(place, len(words)) if words[n].startswith("--")), len(words))
    return [*words[:place], *map(str, values), *words[rest:]]


def test_halves_without_a_size_are_refused(folder, tmp_path, capsys):
    words = calls_by_command(folder)["interventions"]
    (halves,) = words[words.index("--circuit-halves") + 1 :][:1]
    calls = json.loads((folder / "calls.json").read_text())
    makes = next(call for call in calls if call[0] == "circuit" and halves in call)
    other = tmp_path / "circuit_halves.parquet"
    for option, value in (("--k", 30), ("--output", tmp_path / "circuit.parquet"), ("--halves-output", other)):
        makes = with_values(makes, option, value)
    with contextlib.chdir(folder):
        assert main(makes) == 0
        said = refused(with_values(words, "--circuit-halves", other), capsys)
    assert re.search(r"circuit_halves of embedded-digits/\w+ at k = 15", said)


def test_another_template_than_that_of_the_census_is_refused(folder, tmp_path, capsys):
    words = calls_by_command(folder)["activation-maps"]
    place = next(n for n, word in enumerate(words) if word.startswith("--template="))
    changed = [*with_word(words, place, "--template=({a}+{b})="), "--output", str(tmp_path / "x.parquet")]
    with contextlib.chdir(folder):
        said = refused(changed, capsys)
    assert re.search(r"the template of \w+/\w+ '.*', but this command has '\({a}\+{b}\)='", said)
    assert not (tmp_path / "x.parquet").exists()
