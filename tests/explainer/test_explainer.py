"""The explained page: what it chooses and says follows the tables, and it opens in a real browser from disk."""

import html as markup
import re

import numpy as np
import pandas as pd
import pytest
from example_tables import filled
from planted_models import PLANTED, TEMPLATES
from planted_run import OPERATOR, planted, separate

from form_invariance.explainer import steps
from form_invariance.explainer.example import choose_example, choose_neuron
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.stages.patching.table import RANKING

pytestmark = pytest.mark.slow

FORMATS = [FIRST, SECOND] = ["symbolic", 'wo"rd <i>']
K, LAYERS = 2, (3, 4)
# Mean effects of the six neurons of each layer. At k = 2 two neurons of layer 3 and one of layer 4 are shared.
EFFECTS = {
    FIRST: {3: [0.0, 0.5, 0.25, 0.125, -0.5, 0.0], 4: [0.75, -0.25, 0.0, 0.5, 0.25, 0.125]},
    SECOND: {3: [-0.5, 0.25, 0.75, 0.0, 0.125, 0.0], 4: [0.25, 0.5, 0.125, 0.0, -0.25, 0.0]},
}
SHARED = [(3, 1), (3, 2), (4, 0)]
ABLATED = ("interventions", "interventions_prompts")


def problem(number, name=FIRST):
    """Of 12+30, 13+31, 14+32."""
    a, b = 12 + number, 30 + number
    return {"a": a, "b": b, "answer": a + b, "target": str(a + b), "prompt": f"{name}: {a}+{b}="}


def ranking(name):
    rows = [
        (layer, n, place, EFFECTS[name][layer][n])
        for layer in LAYERS
        for place, n in enumerate(np.argsort(-np.array(EFFECTS[name][layer]), kind="stable"), 1)
    ]
    return filled(RANKING, rows, "layer neuron rank ie_mean")


def every_format(make):
    return pd.concat([make(name).assign(format=name) for name in FORMATS], ignore_index=True)


def plain(html):
    """The text that a reader sees, on one line."""
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL))
    return " ".join(markup.unescape(text).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return planted(tmp_path_factory)


@pytest.fixture(scope="module")
def pages(run, tmp_path_factory):
    """Of the model whose formats share their neurons, and of the other one."""
    return [one.results / "explained.html" for one in (run, separate(tmp_path_factory))]


def test_the_numbers_are_the_tables(run, pages):
    html = pages[0].read_text()
    text = plain(html)
    for name in TEMPLATES:
        census = pd.read_parquet(run.cell(name, "census.parquet")).query("uniform")
        assert f"Of {len(census)} sampled problems {census['correct'].mean():.1%} are answered" in text
    overlap = pd.read_parquet(run.shared("overlap.parquet")).query("used and layer == -1")
    (row,) = overlap[overlap["formats"] == "+".join(TEMPLATES)].itertuples()
    for words in (
        f"{row.intersection} of {row.union} are shared: an overlap of {row.jaccard:.1%} ",
        f" ({row.low:.1%} to {row.high:.1%}, 95 % interval). Random sets of the same sizes would have ",
        f" would have {row.chance:.1%}.",
    ):
        assert words in text, words
    verdicts = pd.read_parquet(run.folder / "shared/verdicts.parquet").query("operator == 'all'")
    found = verdicts.drop_duplicates("question").set_index("question")[["value", "control_value"]]
    for words in (
        f"{found.loc['repaired', 'value']:.1%} of the wrong answers become correct; ",
        f"correct; {found.loc['beyond_the_answer', 'control_value']:.1%} with a donor",
        f"in {found.loc['imposed', 'value']:.1%} of the pairs; permuted donors would in "
        f"{found.loc['imposed', 'control_value']:.1%}.",
    ):
        assert words in text, words
    (neuron, layer) = map(int, re.search(r"neuron (\d+) of layer (\d+) has an effect", text).groups())
    rows = [plain(one) for one in re.findall(r"<tr><td>.*?</tr>", html, re.DOTALL)]
    for name, shown in zip(TEMPLATES, rows, strict=True):
        ranking = (
            pd.read_parquet(run.cell(name, "ranking.parquet")).set_index(["layer", "neuron"]).loc[layer, neuron]
        )
        assert shown.startswith(f"{name} {ranking['rank']:.0f} {ranking['ie_mean']:.2f} ")


def census(name):
    return filled(CENSUS, [{**problem(n, name), "uniform": True} for n in range(3)])


def corrupt():
    """Partners of two draws; of the first one 2, 0, 1."""
    rows = [
        {**problem((n + 2 + draw) % 3), "index": n, "corrupt_seed": draw, "partner_operator": "addition"}
        for draw in (0, 1)
        for n in range(3)
    ]
    return filled(CORRUPT, rows)


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
    every["correct"] = [n in right[name] for name in FORMATS for n in range(3)]
    tensors = {"effects.3": np.array([[[4.0], [1.0], [-3.0]]]), "candidates.3": np.array([7])}
    found = choose_example(
        {
            "census": every,
            "dataset": filled(DATASET, [{**problem(n), "split": "train", "index": n} for n in range(3)]),
            "corrupt": corrupt(),
        },
        tensors,
        (3, 7),
    )
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


def test_keep_only_and_knockout_are_shown_next_to_the_unmodified_model(run):
    tables = {
        name: pd.concat(pd.read_parquet(run.cell(f, f"{name}.parquet")) for f in TEMPLATES) for name in ABLATED
    }
    contrasts = pd.read_parquet(run.folder / "shared/intervention_contrasts.parquet")
    given = {"interventions": tables["interventions"], "intervention_contrasts": contrasts}
    table = steps.ablations(given, OPERATOR, PLANTED).set_index(["intervention", "set", "format"]).sort_index()
    prompts = tables["interventions_prompts"].query("intervention == 'good'")
    before = prompts.groupby("format")["probability"].mean()
    rows = tables["interventions"].query("means == 'format' and positions == 'all'")
    rows = rows.set_index(["intervention", "neurons", "format"]).sort_index()
    for name in TEMPLATES:
        for how in ("keep_only", "knockout"):
            assert table.loc[(how, "whole model", name), "value"].item() == pytest.approx(before[name])
            shown, own = table.loc[(how, "shared neurons", name)], rows.loc[(how, "circuit", name)]
            assert shown["value"].tolist() == own["probability"].tolist()
            assert shown["high"].tolist() == own["probability_high"].tolist()
            shown, own = table.loc[(how, "random others", name)], rows.loc[(how, "random", name)]
            assert sorted(shown["value"]) == sorted(own["probability"])
            assert shown["low"].isna().all()


def test_without_shared_neurons_it_says_so(pages):
    text = plain(pages[1].read_text())
    assert text.count("undefined") == 4
    assert "nan" not in text.lower()


@pytest.mark.parametrize(("number", "width"), [(0, 1280), (1, 480)])
def test_it_opens_from_disk(open_from_disk, pages, number, width):
    tab = open_from_disk(pages[number])
    tab.set_viewport_size({"width": width, "height": 900})
    assert tab.eval_on_selector_all("h2", "all => all.length") == 5
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    images = tab.eval_on_selector_all(
        "figure img", "all => all.map((one) => [one.naturalWidth, one.alt, one.width])"
    )
    assert all(natural > 0 and len(text) > 20 and 300 < shown <= width for natural, text, shown in images)
    bars = tab.eval_on_selector_all(".bar", "all => all.map((b) => b.firstChild.offsetWidth / b.clientWidth)")
    assert bars == pytest.approx([1, 1, 0.85], abs=0.01)
