"""The explained page: what it chooses and says follows the tables, and it opens in a real browser from disk."""

import html as markup
import re

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled
from stub_checkout import ROOT

from form_invariance.cli import main
from form_invariance.experiment.answers import Answer, write_answers
from form_invariance.explainer import pictures, steps
from form_invariance.explainer.example import choose_example, choose_neuron
from form_invariance.report import page as report
from form_invariance.stages.census import answer as census_answer
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.pairs import make_grid
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS, INTERVENTIONS
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import provenance_of, write_table, write_tensors
from form_invariance.verdicts.summary.table import VERDICTS

FIRST, SECOND = "symbolic", 'wo"rd <i>'
FORMATS = [FIRST, SECOND]
K, LAYERS = 2, (3, 4)
# Mean effects of the six neurons of each layer. At k = 2 two neurons of layer 3 and one of layer 4 are shared.
EFFECTS = {
    FIRST: {3: [0.0, 0.5, 0.25, 0.125, -0.5, 0.0], 4: [0.75, -0.25, 0.0, 0.5, 0.25, 0.125]},
    SECOND: {3: [-0.5, 0.25, 0.75, 0.0, 0.125, 0.0], 4: [0.25, 0.5, 0.125, 0.0, -0.25, 0.0]},
}
SHARED = [(3, 1), (3, 2), (4, 0)]
# Problems 12+30, 13+31, 14+32, 15+33; the second format answers the first one wrongly.
PROBLEMS = [(12 + n, 30 + n) for n in range(4)]
WRONG = {FIRST: [], SECOND: [0]}
# What is added to the mean effects for each train prompt, with the first draw of partners.
AROUND = [0.0625, 0.1875, -0.25]
# Probability of the right answer by what is kept (k) or knocked out.
LEFT = {"keep_only": {"circuit": 0.375, "random": 0.03125}, "knockout": {"circuit": 0.125, "random": 0.625}}
LOST = 0.75
MATCHED = {"value": 0.4375, "control_value": 0.1875, "difference": 0.25, "low": 0.125, "high": 0.375}


def problem(number, name):
    a, b = PROBLEMS[number]
    return {"a": a, "b": b, "answer": a + b, "target": str(a + b), "prompt": f"{name}: {a}+{b}="}


def census(name):
    rows = [
        {
            **problem(n, name),
            "uniform": n < 3,
            "correct": n not in WRONG[name],
            "predicted": " 0" if n in WRONG[name] else str(sum(PROBLEMS[n])),
            "probability": 0.125 * (n + 1),
        }
        for n in range(4)
    ]
    return filled(CENSUS, rows)


def dataset():
    rows = [{**problem(n, FIRST), "split": "train" if n < 3 else "eval", "index": n % 3} for n in range(4)]
    return filled(DATASET, rows)


def corrupt():
    partner = {0: 2, 1: 0, 2: 1}
    own = {"partner_operator": "addition"}
    rows = [
        {**problem((partner[n] + draw) % 3, FIRST), "index": n, "corrupt_seed": draw, **own}
        for draw in (0, 1)
        for n in range(3)
    ]
    return filled(CORRUPT, rows)


def ranking(name):
    rows = [
        (layer, n, place, EFFECTS[name][layer][n])
        for layer in LAYERS
        for place, n in enumerate(np.argsort(-np.array(EFFECTS[name][layer]), kind="stable"), 1)
    ]
    return filled(RANKING, rows, "layer neuron rank ie_mean")


def effects():
    tensors = {}
    for layer in LAYERS:
        own = np.array(EFFECTS[FIRST][layer]) + np.array(AROUND)[:, None]
        tensors[f"effects.{layer}"] = np.stack([own, 2 * own]).astype(np.float32)
        tensors[f"candidates.{layer}"] = np.arange(6)
    return tensors


def interventions(name, empty):
    rows = [
        {"intervention": how, "means": "format", "positions": "all", "neurons": kind, "k": k, "seed": seed}
        | {"probability": np.nan if empty else value / (1 if k == K else 2) + 0.0625 * FORMATS.index(name)}
        | {"probability_low": value / 2, "probability_high": value * 2}
        for how, kinds in LEFT.items()
        for kind, value in kinds.items()
        for k in (K, 5)
        for seed in ([-1] if kind == "circuit" else [] if empty else [0, 1])
    ]
    return filled(INTERVENTIONS, rows)


def contrasts(empty):
    table = crossed(
        INTERVENTION_CONTRASTS,
        format=[*FORMATS, "all"],
        operator=["addition", "division"],
        k=K,
        intervention=[*LEFT],
        metric=["accuracy", "probability"],
    )
    return table.assign(first=np.nan if empty else np.where(table["operator"] == "addition", LOST, 0.0))


def overlap(empty):
    pooled = {"intersection": 0 if empty else 3, "union": 5, "jaccard": 0.0 if empty else 0.6}
    pooled |= {"chance": 0.2125, "low": 0.40625, "high": 0.78125}
    rows = [
        {"k": k, "layer": layer, "formats": "+".join(FORMATS), "membership": rule, "used": rule == "positive"}
        | (pooled if (k, layer, rule) == (K, -1, "positive") else dict.fromkeys(pooled, 99))
        for k in (K, 5)
        for layer in (-1, *LAYERS)
        for rule in ("positive", "top_k")
    ]
    return filled(OVERLAP, rows)


def verdicts(empty):
    questions = ["same", "sufficient", "necessary", "beyond_the_answer", "imposed"]
    table = crossed(
        VERDICTS, question=questions, k=[K, 5], operator="all", metric="rate", verdict="yes", **MATCHED
    )
    if empty:
        table.loc[table["question"] != "same", [*MATCHED]] = np.nan
        table.loc[table["question"] != "same", "verdict"] = "undefined"
    return table


def heuristics(name):
    """Neuron 2 of layer 3 has a label in both formats, neuron 0 of layer 4 in the first; others would be wrong."""
    rows = [(3, 2, "op1_range_0_9", "operand range", 0.875, True), (3, 2, "result_1mod3", "result", 0.625, True)]
    rows += [
        (3, 1, "op1_range_0_9", "operand range", 0.5, False),
        (4, 0, "result_0mod2", "result", 0.75, name == FIRST),
    ]
    columns = ["layer", "neuron", "heuristic", "family", "score", "label"]
    own = pd.DataFrame(rows, columns=columns).assign(base_rate=0.3125)
    kinds = (("strict", "shared", "observed", 0), ("reference", "shared", "observed", 0.1))
    kinds += (("strict", "shared", "shuffled", 0.1), ("strict", "matched_effect", "observed", 0.1))
    parts = [
        own.assign(
            mode=mode, neurons=of, activations=how, score=own["score"] + more, label=own["label"] | (more > 0)
        )
        for mode, of, how, more in kinds
    ]
    return filled(HEURISTICS, pd.concat(parts))


def maps(name):
    grid = make_grid("a + b", 12)
    own = np.stack([grid.a * (n + 1.0) + grid.b * (1 + FORMATS.index(name)) for n in range(len(SHARED))])
    neurons = {3: np.array([1, 2]), 4: np.array([0])}
    return map_files.to_arrays(own.astype(np.float32), own.astype(np.float32), grid, neurons)


ANSWERS = [
    Answer(census_answer.QUESTION, "It does.", pd.DataFrame({"x": [1]})),
    Answer("Are they the same?", "They are.", pd.DataFrame({"x": [1]}), ("overlap",)),
    Answer("Do they suffice?", "They do.", pd.DataFrame({"x": [1]}), ("keep_only",)),
]


def write_run(folder, empty=False, mapped=True):
    """Files of a run; returns the words of the command. Not `mapped`: a table of words."""
    words = ["--asked", "a + b", "--k", str(K), "--tables"]
    keys = {"model": "m&m", "operator": "addition"}

    def add(name, schema, table, form=None):
        path = folder / f"{name}_{FORMATS.index(form) if form else ''}.parquet"
        write_table(table, path, schema, {}, {**keys, "format": form or FORMATS[0]})
        words.append(str(path))

    for name in FORMATS:
        add("census", CENSUS, census(name), name)
        add("ranking", RANKING, ranking(name), name)
        add("interventions", INTERVENTIONS, interventions(name, empty), name)
        if mapped:
            add("heuristics", HEURISTICS, heuristics(name).head(0 if empty else None), name)
    add("dataset", DATASET, dataset())
    add("corrupt", CORRUPT, corrupt())
    shared = [{"k": k, "layer": layer, "neuron": n} for k in ([5] if empty else [K, 5]) for layer, n in SHARED]
    add("circuit", CIRCUIT, filled(CIRCUIT, shared))
    add("overlap", OVERLAP, overlap(empty))
    add("intervention_contrasts", INTERVENTION_CONTRASTS, contrasts(empty))
    add("verdicts", VERDICTS, verdicts(empty))
    write_tensors(
        effects(), folder / "effects.safetensors", "indirect_effects", {}, {**keys, "format": FORMATS[0]}
    )
    write_answers("m&m", ANSWERS, folder / "answers.json")
    if mapped:
        words.append("--maps")
        for number, name in enumerate(FORMATS):
            write_tensors(maps(name), folder / f"maps_{number}.safetensors", map_files.KIND, {}, {"format": name})
            words.append(str(folder / f"maps_{number}.safetensors"))
    return [*words, "--effects", str(folder / "effects.safetensors"), "--answers", str(folder / "answers.json")]


def explain(folder, **how):
    """The page of a run, and its path."""
    path = folder / "explained.html"
    assert main(["explainer", *write_run(folder, **how), "--output", str(path)]) == 0
    return path.read_text()


def plain(html):
    """The text that a reader sees, on one line."""
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL))
    return " ".join(markup.unescape(text).split())


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return explain(tmp_path_factory.mktemp("explained"))


@pytest.fixture(scope="module")
def without_shared(tmp_path_factory):
    return explain(tmp_path_factory.mktemp("without"), empty=True)


@pytest.fixture(scope="module")
def of_words(tmp_path_factory):
    return explain(tmp_path_factory.mktemp("words"), mapped=False)


def every_format(make):
    return pd.concat([make(name).assign(format=name) for name in FORMATS], ignore_index=True)


def test_the_numbers_are_the_tables(html):
    text = plain(html)
    for words in (
        # Of the three problems of the uniform sample the second format answers two.
        *("3 sampled problems 100.0%", "3 sampled problems 66.7%"),
        # Neuron 2 of layer 3 is labelled in both formats; of problems right in both, 1 is nearest to its mean.
        *(
            f"{FIRST}: 13+31= Most probable next token: 44",
            "right answer 0.25.",
            f"{FIRST}: 13+31= {FIRST}: 12+30= ",
        ),
        *("neuron 2 of layer 3 has an effect of 0.44", "from 0.00 to 0.44", "which is 0.25 for this"),
        # 0.75 of 0.875 of the layer's positive effect is the best two's.
        *("85.7% of the layer", "3 of 5 are shared: an overlap of 60.0% (40.6% to 78.1%", "would have 21.2%"),
        *("43.8% of the wrong answers become correct; 18.8% with", "in 43.8% of the pairs"),
    ):
        assert words in text
    assert text.count("0.25 [0.12, 0.38]") == 5
    rows = re.findall(r"<tr><td>.*?</tr>", html, re.DOTALL)
    assert [plain(row) for row in rows] == [
        f"{name} {rank} {effect} operand range op1_range_0_9 87.5% 31.2%"
        for name, rank, effect in ((FIRST, 2, "0.25"), (SECOND, 1, "0.75"))
    ]


@pytest.mark.parametrize(
    ("right", "candidates", "chosen"),
    [
        ({FIRST: [0, 1, 2], SECOND: [0, 1, 2]}, 3, 1),
        ({FIRST: [0, 2], SECOND: [2]}, 1, 2),
        ({FIRST: [0], SECOND: [1]}, 3, 1),
    ],
    ids=["all", "one", "none"],
)
def test_the_example_is_right_everywhere_and_nearest_to_the_mean(right, candidates, chosen):
    every = every_format(census)
    every["correct"] = [n in right[name] for name in FORMATS for n in range(4)]
    tensors = {"effects.3": np.array([[[4.0], [1.0], [-3.0]]]), "candidates.3": np.array([7])}
    found = choose_example({"census": every, "dataset": dataset(), "corrupt": corrupt()}, tensors, (3, 7))
    assert found.rows["prompt"].tolist() == [problem(chosen, name)["prompt"] for name in FORMATS]
    assert found.effect == tensors["effects.3"][0, chosen, 0]
    assert (found.candidates, found.right) == (
        candidates,
        candidates == len(set(right[FIRST]) & set(right[SECOND])),
    )
    assert found.partner["prompt"] == problem({0: 2, 1: 0, 2: 1}[chosen], FIRST)["prompt"]


def test_the_neuron_is_labelled_or_shared_or_the_best():
    every, shared = every_format(ranking), pd.DataFrame(SHARED, columns=["layer", "neuron"])
    # Mean ranks at layer 3: neuron 1 has 1.5, neuron 2 too; at layer 4 neuron 0 has 1.5. Of equals the first.
    assert choose_neuron(every, shared, shared.iloc[[2]]) == (4, 0)
    assert choose_neuron(every, shared, shared.head(0)) == (3, 1)
    assert choose_neuron(every, shared.head(0), shared.head(0)) == (4, 0)
    every.loc[every["neuron"] == 1, "rank"] += 1
    assert choose_neuron(every, shared, shared.head(0)) == (3, 2)


def test_members_are_those_of_the_circuit():
    every = every_format(ranking)
    for layer, expected in ((3, {1, 2}), (4, {0})):
        table = steps.members(every, layer, K, "positive")
        assert table.index.tolist() == FORMATS
        shared = table.all(axis=0)
        assert set(table.columns[shared]) == expected
        assert shared.tolist() == sorted(shared, reverse=True), "shared ones come first"
    negative = every.assign(ie_mean=-1.0)
    assert steps.members(negative, 3, K, "positive").shape[1] == 0
    assert steps.members(negative, 3, K, "top_k").shape[1] == 2


def test_pictures_show_the_tables():
    every = every_format(ranking)
    chosen = steps.effects_in_layer(every, 3, K)
    grey, best, ring = pictures.effects_picture(chosen, 2).axes[0].lines[1:]
    assert best.get_ydata().tolist() == [0.5, 0.25]
    assert grey.get_ydata().tolist() == [0.125, 0.0, 0.0, -0.5]
    assert (ring.get_xdata().tolist(), ring.get_ydata().tolist()) == ([2], [0.25])
    figure = pictures.maps_picture({name: map_files.from_arrays(maps(name)) for name in FORMATS}, (3, 2))
    for name, axes in zip(FORMATS, figure.axes, strict=False):
        image = axes.images[0].get_array()
        assert image[5, 4] == pytest.approx(4 * 2 + 5 * (1 + FORMATS.index(name)), abs=0.2)
    dots = pictures.formats_picture(every, (3, 2), K).axes[0].lines
    assert [line.get_xdata().tolist() for line in dots] == [[0.25, 0.25], [0.25, 0.75]]


def test_keep_only_and_knockout_are_drawn_next_to_the_unmodified_model():
    every = {
        "interventions": every_format(lambda name: interventions(name, False)),
        "intervention_contrasts": contrasts(False),
    }
    table = steps.ablations(every, "addition", K).set_index(["intervention", "set", "format"]).sort_index()
    for number, name in enumerate(FORMATS):
        for how, kinds in LEFT.items():
            assert table.loc[(how, "whole model", name), "value"].item() == 0.125 + 0.0625 * number + LOST
            assert table.loc[(how, "shared neurons", name), "value"].item() == kinds["circuit"] + 0.0625 * number
            assert table.loc[(how, "shared neurons", name), "high"].item() == 2 * kinds["circuit"]
            controls = table.loc[(how, "random others", name)]
            assert controls["value"].tolist() == [kinds["random"] + 0.0625 * number] * 2
            assert controls["low"].isna().all()
    figure = pictures.ablations_picture(table.reset_index())
    drawn = sorted(figure.axes[1].lines[0].get_xdata().tolist())
    assert drawn == sorted(table.loc["knockout"].xs(FIRST, level="format")["value"])


def test_without_shared_neurons_it_says_so(without_shared):
    text = plain(without_shared)
    assert text.count("undefined") == 4
    assert without_shared.count("data:image/svg+xml") == 3
    assert "nan" not in text.lower()


def test_a_table_of_words_has_effects_in_place_of_maps(of_words, html):
    assert "label" not in plain(of_words)
    assert "label" in plain(html)
    assert of_words.count("data:image/svg+xml") == html.count("data:image/svg+xml") == 4


def test_a_neuron_that_a_format_did_not_try_has_no_number(tmp_path):
    words = write_run(tmp_path, empty=True, mapped=False)
    table = ranking(SECOND)
    table, path = table[table["neuron"] != 0].reset_index(drop=True), tmp_path / "ranking_1.parquet"
    write_table(table, path, RANKING, {}, provenance_of(path)["keys"])
    assert main(["explainer", *words, "--output", str(tmp_path / "page.html")]) == 0
    rows = re.findall(r"<tr><td>.*?</tr>", (tmp_path / "page.html").read_text(), re.DOTALL)
    assert [plain(row) for row in rows] == [f"{FIRST} 1 0.75", f"{SECOND} not tried undefined"]


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (
            "heuristics_1.parquet",
            "--tables: there must be a table of heuristics for each format of the ranking tables",
        ),
        ("maps_1.safetensors", "--maps must have a file for each format of the ranking tables and no other"),
    ],
)
def test_a_file_that_one_format_lacks_is_named(tmp_path, capsys, lost, said):
    words = [word for word in write_run(tmp_path) if not word.endswith(lost)]
    assert main(["explainer", *words, "--output", str(tmp_path / "page.html")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")
    assert not (tmp_path / "page.html").exists()


def test_it_links_to_sections_that_the_report_has(html):
    anchors = {answer.question: answer.anchor for answer in ANSWERS}
    assert anchors[census_answer.QUESTION] == "can-the-model-do-the-problems"
    targets = set(re.findall(r'href="report.html#([^"]+)"', html))
    assert targets == set(anchors.values())
    sections = report._sections({"m": [ANSWERS[0]]}, report.Files({}, [], [], ROOT))
    assert sections[0]["anchor"] in targets
    assert 'href="browser/m%26m.html"' in html


# ---- in a real browser


@pytest.mark.parametrize(
    ("kind", "width"), [("html", 1280), ("html", 480), ("without_shared", 480), ("of_words", 480)]
)
def test_it_opens_from_disk(open_from_disk, request, tmp_path, kind, width):
    path = tmp_path / "explained.html"
    path.write_text(request.getfixturevalue(kind))
    tab = open_from_disk(path)
    tab.set_viewport_size({"width": width, "height": 900})
    assert tab.eval_on_selector_all("h2", "all => all.length") == 5
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    images = tab.eval_on_selector_all(
        "figure img", "all => all.map((one) => [one.naturalWidth, one.alt, one.width])"
    )
    assert all(natural > 0 and len(text) > 20 and 300 < shown <= width for natural, text, shown in images)
    bars = tab.eval_on_selector_all(".bar", "all => all.map((b) => b.firstChild.offsetWidth / b.clientWidth)")
    assert bars == pytest.approx([1, 2 / 3], abs=0.01)
