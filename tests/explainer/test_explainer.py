"""The explained page: what it chooses and says follows the tables, and it opens in a real browser from disk."""

import html as markup
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from example_tables import filled
from planted_models import LATE, TEMPLATES, planted_neurons
from planted_run import separate
from safetensors.numpy import load_file

from form_invariance.cli import main
from form_invariance.explainer import command, steps
from form_invariance.explainer.example import choose_example, choose_neuron, labelled_everywhere
from form_invariance.explainer.pictures import formats_picture, maps_picture
from form_invariance.stages.heuristics.map_files import ActivationMaps
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.patching.table import RANKING

pytestmark = pytest.mark.slow


def plain(html):
    """The text that a reader sees, on one line."""
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL))
    return " ".join(markup.unescape(text).split())


@pytest.fixture(scope="module")
def pages(planted, tmp_path_factory):
    """The pages of the model whose formats share their neurons, and of the other one."""
    return [one.results / "explained.html" for one in (planted, separate(tmp_path_factory))]


def test_the_example_is_right_everywhere_and_nearest_to_the_mean(planted):
    """Oracle: plain loops. One format misreads larger sums. If no prompt is right in every format, all count."""
    first, layer = next(iter(TEMPLATES)), LATE[0]
    neuron = planted_neurons(True, 0)[first, layer][0]
    tensors = load_file(planted.cell(first, "indirect_effects.safetensors"))
    dataset, corrupt = (pd.read_parquet(planted.cell(first, f"{name}.parquet")) for name in ("dataset", "corrupt"))
    train = dataset[dataset["split"] == "train"].sort_values("index")
    place = tensors[f"candidates.{layer}"].tolist().index(neuron)
    effects = tensors[f"effects.{layer}"][0, :, place].astype(float)
    every = planted.table("census")
    times = every[every["correct"]].groupby(["a", "b"]).size()
    right = [n for n, pair in enumerate(zip(train["a"], train["b"], strict=True)) if times.get(pair, 0) == 3]
    assert 0 < len(right) < len(train)
    for census, usable in ((every, right), (every.assign(correct=False), range(len(train)))):
        given = {"census": census, "dataset": dataset, "corrupt": corrupt}
        found = choose_example(given, tensors, (layer, neuron))
        best = min(usable, key=lambda n: abs(effects[n] - effects.mean()))
        assert (found.candidates, found.right) == (len(usable), usable is right)
        assert found.effect == effects[best]
        row = train.iloc[best]
        assert found.rows[["a", "b"]].to_numpy().tolist() == [[row["a"], row["b"]]] * len(TEMPLATES)
        partner = corrupt[(corrupt["corrupt_seed"] == 0) & (corrupt["index"] == row["index"])]
        assert found.partner["prompt"] == partner["prompt"].item()


def test_the_neuron_is_labelled_or_shared_or_the_best(planted):
    every = planted.table("ranking")
    shared = pd.read_parquet(planted.shared("circuit.parquet"))[["layer", "neuron"]]
    means, nobody = every.groupby(["layer", "neuron"])["rank"].mean(), shared.head(0)
    for labelled, among in ((shared.iloc[3:6], shared.iloc[3:6]), (nobody, shared)):
        found = choose_neuron(every, shared, labelled)
        assert means[found] == min(means[pair] for pair in zip(among["layer"], among["neuron"], strict=True))
        assert (among == [*found]).all(axis=1).any()
    first = every[every["format"] == next(iter(TEMPLATES))]
    assert choose_neuron(every, nobody, nobody) == tuple(first.loc[first["ie_mean"].idxmax(), ["layer", "neuron"]])


def test_labelled_everywhere_is_labelled_in_every_format():
    """This holds even if a format has no label at all."""
    of = {"mode": "strict", "neurons": "shared", "activations": "observed", "layer": 3}
    rows = [(name, neuron, neuron < labelled) for name, labelled in (("s", 2), ("c", 1)) for neuron in range(3)]
    for more, expected in (([], [0]), ([("w", 0, False)], [])):
        found = labelled_everywhere(filled(HEURISTICS, rows + more, "format neuron label", keys="format", **of))
        assert found["neuron"].tolist() == expected


def test_the_best_are_k_and_their_share_is_of_the_positive_effect():
    rows = [("s", 2, 5, 1, 0.3), ("s", 2, 6, 2, 0.1), ("s", 2, 7, 3, -0.2), ("s", 3, 5, 1, 1), ("c", 2, 5, 1, 1)]
    ranking = filled(RANKING, rows, "format layer neuron rank ie_mean", keys="format")
    found = steps.members(ranking, 2, 2, "positive")
    assert (found.loc["s"].to_dict(), found.loc["c"].to_dict()) == ({5: True, 6: True}, {5: True, 6: False})
    effects = steps.effects_in_layer(ranking, 2, 1)
    assert steps.share_of_best(effects) == pytest.approx(0.75)
    assert np.isnan(steps.share_of_best(effects.tail(1)))


def test_a_map_has_the_first_operand_across():
    a, b = np.divmod(np.arange(15), 5)
    values = np.random.default_rng(0).normal(size=(2, 15))
    maps = ActivationMaps(a, b, a - b, pd.DataFrame({"layer": [2, 2], "neuron": [4, 7]}), values, values)
    (axes, *_) = maps_picture({"words": maps}, (2, 7)).axes
    assert (axes.images[0].get_array()[b, a] == values[1]).all()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")


def test_a_neuron_without_maps_is_drawn_beside_the_last_of_its_layers_best():
    rows = [("s", 2, 4, 1, 0.9), ("s", 2, 7, 2, 0.3), ("s", 4, 2, 2, 0.5)]
    ranking = filled(RANKING, rows, "format layer neuron rank ie_mean", keys="format")
    (axes,) = formats_picture(ranking, (2, 4), 2).axes
    assert [[*line.get_xdata()] for line in axes.lines] == [[0.3], [0.9]]


def test_it_says_which_effect_ranks_the_neurons(planted, pages, tmp_path, monkeypatch):
    assert "Its indirect effect is the mean of these two relative changes;" in plain(pages[0].read_text())
    render, path, (words,) = command.render, tmp_path / "page.html", planted.commands("explainer")
    monkeypatch.setattr(command, "render", lambda own: render(replace(own, ranking="probability")))
    monkeypatch.chdir(planted.place)
    assert main([*words, f"--output={path}"]) == 0
    assert "Its effect is by how much this probability falls;" in (text := plain(path.read_text()))
    assert "indirect effect" not in text


def test_it_does_without_the_stages_beyond_the_papers(planted, tmp_path, monkeypatch):
    path, (words,) = tmp_path / "page.html", planted.commands("explainer")
    shares = [word for word in words if word.endswith("residual_shares.parquet")]
    words = [word for word in words if word not in ("--stages", "residual_exchange", *shares)]
    monkeypatch.chdir(planted.place)
    assert main([*words, f"--output={path}"]) == 0
    text = plain(path.read_text())
    assert "The experiment in five steps" in text
    assert "Where do the formats meet?" not in text


def test_without_shared_neurons_it_says_so(pages):
    text = plain(pages[1].read_text())
    assert text.count("undefined") == 3
    assert "nan" not in text.lower()


@pytest.mark.parametrize(("number", "width"), [(0, 1280), (1, 480)])
def test_it_opens_from_disk(open_from_disk, pages, number, width):
    tab = open_from_disk(pages[number])
    tab.set_viewport_size({"width": width, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.eval_on_selector_all("figure img", "all => all[0] && all.every((i) => i.naturalWidth && i.alt)")
    bars = tab.eval_on_selector_all(".bar", "all => all.map((b) => b.firstChild.offsetWidth / b.clientWidth)")
    assert bars == pytest.approx([1, 1, 0.835], abs=0.01)
    known = re.findall(r'id="([^"]+)"', pages[number].with_name("report.html").read_text())
    anchors = tab.eval_on_selector_all("a[href^='report.html#']", "all => all.map((one) => one.hash.slice(1))")
    assert set() < set(anchors) <= set(known)
