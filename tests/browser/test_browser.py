"""The neuron browser: its data against the tables, and the page in a real browser, opened from disk."""

import csv
import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from browser_cells import (
    FILES,
    FORMATS,
    MODEL,
    OPERATORS,
    OTHER,
    PAIRS,
    data_of,
    heuristics_table,
    read_cell,
    tables_of,
    unpack_bytes,
)

from form_invariance.browser import neurons, packing, page
from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.pairs import make_grid


def read(results, name, operator, table):
    return pd.read_parquet(results / MODEL / name / operator / f"{table}.parquet")


def test_the_pages_numbers_are_the_tables(results):
    data = data_of(results / f"browser/{MODEL}.html")
    assert (data["formats"], data["k"], list(data["operators"])) == (FORMATS, 200, list(OPERATORS))
    for operator in OPERATORS:
        found = data["operators"][operator]["neurons"]
        assert sorted((one["layer"], one["neuron"]) for one in found) == PAIRS
        ranks = [sum(one["rank"]) for one in found]
        assert ranks == sorted(ranks)
        for number, name in enumerate(FORMATS):
            ranking = read(results, name, operator, "ranking").set_index(["layer", "neuron"])
            effects = read(results, name, operator, "neuron_effects").set_index(["layer", "neuron"])
            for one in found[::50]:
                key = (one["layer"], one["neuron"])
                assert one["rank"][number] == ranking.loc[key, "rank"]
                assert one["ie"][number] == pytest.approx(ranking.loc[key, "ie_mean"], rel=1e-3)
                knocked = effects.loc[key, "knockout_normalized_logit"]
                assert one["knockout_normalized_logit"][number] == pytest.approx(knocked, rel=1e-2)


def unpack_maps(packed, formats):
    """The maps (formats, N) of `pack_maps`, exact to half a step of the scale."""
    differences = unpack_bytes(packed["maps"], np.uint8).reshape(formats, -1)
    codes = differences.astype(np.int64).cumsum(1) % packing.LEVELS
    step = (packed["high"] - packed["low"]) / (packing.LEVELS - 1)
    return packed["low"] + codes * step


def test_the_pages_maps_are_the_files(results):
    data = data_of(results / f"browser/{MODEL}.html")["operators"]["division"]
    one = data["neurons"][3]
    found = unpack_maps(one["maps"], len(FORMATS))
    row = PAIRS.index((one["layer"], one["neuron"]))
    half_a_step = (one["maps"]["high"] - one["maps"]["low"]) / (packing.LEVELS - 1) / 2
    grid = make_grid("a // b", 40)
    stored = read_cell(results / MODEL / FORMATS[0] / "division").maps.maps[row]
    assert np.abs(found[0] - stored).max() < 1.1 * half_a_step
    np.testing.assert_array_equal(unpack_bytes(data["a"], np.uint16), grid.a)
    np.testing.assert_array_equal(unpack_bytes(data["b"], np.uint16), grid.b)
    answers = np.array(data["answers"])[unpack_bytes(data["place"], np.uint16)]
    np.testing.assert_array_equal(answers, grid.answer)
    logits = unpack_bytes(one["logits"], np.float32)
    best = np.argsort(-logits)[: neurons.ANSWERS]
    assert [answer for answer, _ in one["promotes"]] == np.array(data["answers"])[best].tolist()


def test_constant_maps_have_a_scale():
    packed = packing.pack_maps(np.full((3, 20), 1.5, dtype=np.float32))
    np.testing.assert_allclose(unpack_maps(packed, 3), 1.5)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([set(), set()], "none"),
        ([{"x"}, set()], "some"),
        ([{"x"}, {"x"}], "same"),
        ([{"x", "y"}, {"x"}], "common"),
        ([{"y"}, {"x"}], "different"),
    ],
)
def test_agreement_of_formats(sets, expected):
    assert neurons.agreement(sets) == expected


def test_families_hold_the_best_heuristic_and_its_null():
    table = heuristics_table(0)
    better = table.iloc[[0]].assign(heuristic="op1_range_10_19", score=0.95, label=False)
    found = neurons.families(pd.concat([table, better]))
    assert set(found) == {(mode, *pair) for mode in ("strict", "reference") for pair in PAIRS}
    assert found["reference", *PAIRS[0]] == {
        "operand range": ["op1_range_0_9", 0.9, 0.1, 1, 0.7],
        "result modulo": ["result_1mod3", 0.9, 0.1, 1, None],
    }, "a label comes before a higher score without one"


def test_maps_are_left_out_where_the_page_would_grow_too_large(results):
    cells = {"addition": {name: read_cell(results / MODEL / name / "addition") for name in FORMATS}}
    operators = {"addition": page.operator_data(cells["addition"], 1e6, "x")}
    page.add_maps(operators, cells, 100_000)
    with_maps = ["maps" in one for one in operators["addition"]["neurons"]]
    assert 0 < sum(with_maps) < len(with_maps)
    assert with_maps == sorted(with_maps, reverse=True), "the best ranked have theirs"
    assert len(json.dumps(operators)) < 100_000 + len(
        json.dumps({"a": page.operator_data(cells["addition"], 1e6, "x")})
    )


def test_maps_of_other_neurons_are_refused(results):
    one = read_cell(results / MODEL / "code/addition")
    other = read_cell(results / MODEL / "code/division")
    with pytest.raises(UserError, match="m, addition: the formats' maps or effects are of other neurons"):
        neurons.neurons_of({"a": one, "b": other}, "m, addition")


# ---- in a real browser


@pytest.fixture
def opened(open_from_disk, results):
    """Opens the page of a model and waits for its heat maps."""

    def open_page(name=MODEL, fragment=""):
        tab = open_from_disk(results / "browser" / f"{name}.html", fragment)
        tab.wait_for_selector("canvas.map")
        return tab

    return open_page


def listed(tab):
    return tab.eval_on_selector_all("#rows tr", "rows => rows.map((row) => row.dataset.neuron)")


def chosen(tab):
    return tab.eval_on_selector_all('#rows tr[aria-selected="true"]', "rows => rows.map((r) => r.dataset.neuron)")


def neurons_in(results, operator="addition"):
    found = data_of(results / f"browser/{MODEL}.html")["operators"][operator]["neurons"]
    return {f"{one['layer']}.{one['neuron']}": one for one in found}


def test_it_opens_on_the_best_neuron(opened, results):
    tab = opened()
    known = neurons_in(results)
    assert listed(tab) == list(known)
    assert chosen(tab) == [next(iter(known))]
    assert tab.inner_text("#count") == "300 of 300 neurons"
    assert tab.title() == f"Shared neurons of {MODEL}"
    captions = tab.eval_on_selector_all("#maps figcaption", "all => all.map((one) => one.textContent)")
    assert captions == [*FORMATS, *FORMATS]


def test_filters(opened, results):
    tab = opened()
    known = neurons_in(results)
    tab.select_option("#layer", "5")
    assert listed(tab) == [name for name in known if name.startswith("5.")]
    tab.select_option("#layer", "")
    tab.select_option("#agreement", "same")
    assert listed(tab) == [name for name, one in known.items() if one["agreement_strict"] == "same"]
    assert len(listed(tab)) == 75
    tab.select_option("#agreement", "")
    tab.select_option("#family", "result modulo")
    assert set(listed(tab)) == {f"{layer}.{neuron}" for layer, neuron in PAIRS[::4]}
    tab.select_option("#family", "")
    tab.fill("#query", "3.28")
    assert set(listed(tab)) == {"3.28", *(f"3.{n}" for n in range(280, 290, 2))}
    tab.fill("#query", "nothing")
    assert listed(tab) == []
    assert tab.inner_text("#detail") == "No neuron passes the filters."


def test_sorting_by_every_column(opened, results):
    tab = opened()
    known = neurons_in(results)
    tab.click("#columns button:text('IE')")
    means = [np.mean(known[name]["ie"]) for name in listed(tab)]
    assert means == sorted(means, reverse=True)
    tab.click("#columns button:text('IE')")
    assert listed(tab)[0] == min(known, key=lambda name: np.mean(known[name]["ie"]))
    tab.click("#columns button:text('Knock')")
    means = [np.mean(known[name]["knockout_probability"]) for name in listed(tab)]
    assert means == sorted(means)
    tab.click("#columns button:text('Neuron')")
    assert listed(tab) == [f"{layer}.{neuron}" for layer, neuron in PAIRS]
    assert tab.get_attribute("#columns th:first-child", "aria-sort") == "ascending"


def test_a_link_leads_to_a_neuron_and_back(opened, results):
    tab = opened()
    tab.select_option("#operator", "division")
    tab.fill("#query", "5.")
    tab.click('#rows tr[data-neuron="5.42"]')
    address = tab.url
    again = opened(fragment="#" + address.partition("#")[2])
    assert chosen(again) == ["5.42"]
    assert again.input_value("#operator") == "division"
    assert "Layer 5, neuron 42" in again.inner_text("#detail")
    again.evaluate("location.hash = '#operator=addition&neuron=3.10'")
    again.wait_for_selector("h2:text('Layer 3, neuron 10')")
    broken = opened(fragment="#operator=nonsense&sort=zz&mode=<b>&neuron=9.9&layer=77")
    assert chosen(broken) == [next(iter(neurons_in(results)))]
    with again.expect_navigation():
        again.click("a.other-model")
    again.wait_for_selector("canvas.map")
    assert again.title() == f"Shared neurons of {OTHER}"
    assert chosen(again) == ["3.10"]


def test_the_keyboard_is_enough(opened, results):
    tab = opened()
    order = list(neurons_in(results))
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    tab.keyboard.press("ArrowDown")
    assert chosen(tab) == [order[3]]
    tab.keyboard.press("k")
    assert chosen(tab) == [order[2]]
    tab.keyboard.press("End")
    assert chosen(tab) == [order[-1]]
    tab.keyboard.press("/")
    tab.keyboard.type("5.100")
    assert chosen(tab) == ["5.100"]
    tab.keyboard.press("Escape")
    tab.keyboard.press("o")
    assert tab.input_value("#operator") == "division"
    assert chosen(tab) == ["5.100"]


def test_a_pixel_has_the_colour_of_its_value(opened, results):
    tab = opened(fragment="#operator=division&neuron=3.8")
    data = data_of(results / f"browser/{MODEL}.html")
    one = neurons_in(results, "division")["3.8"]
    grid = make_grid("a // b", 40)
    values = unpack_maps(one["maps"], len(FORMATS))
    logits = unpack_bytes(one["logits"], np.float32)
    answers = data["operators"]["division"]["answers"]
    answer_logit = logits[np.searchsorted(answers, grid.answer)]
    script = "all => all.map((one) => [...one.getContext('2d').getImageData(0, 0, 40, 40).data])"
    images = np.array(tab.eval_on_selector_all("canvas.map", script)).reshape(-1, 40, 40, 4)
    for pair in (0, 77, len(grid.a) - 1):
        a, b = int(grid.a[pair]), int(grid.b[pair])
        for number, maps in enumerate((values, values * answer_logit)):
            low, high = maps.min(), maps.max()
            for f, name in enumerate(FORMATS):
                level = (maps[f, pair] - low) / (high - low) * (packing.LEVELS - 1)
                red, green, blue, alpha = images[number * 3 + f, 39 - b, a]
                near = {data["colours"][round(level + d)] for d in (-0.02, 0, 0.02) if 0 <= round(level + d) < 64}
                assert (f"#{red:02x}{green:02x}{blue:02x}" in near, alpha) == (True, 255), name
    assert (images[:, 39, 5, 3] == 0).all(), "division by 0 has no pixel"


def test_the_cross_names_the_values(opened, results):
    tab = opened(fragment="#operator=addition&neuron=3.8")
    one = neurons_in(results)["3.8"]
    values = unpack_maps(one["maps"], len(FORMATS))
    box = tab.locator("canvas.map").first.bounding_box()
    cell = box["width"] / 40
    tab.mouse.move(box["x"] + 12.5 * cell, box["y"] + (39 - 30 + 0.5) * cell)
    text = tab.inner_text(".readout >> nth=0")
    assert text.startswith("a = 12, b = 30, answer 42; ")
    shown = [float(part.rpartition(" ")[2]) for part in text.split("; ")[1:]]
    pair = np.flatnonzero((make_grid("a + b", 40).a == 12) & (make_grid("a + b", 40).b == 30))[0]
    np.testing.assert_allclose(shown, values[:, pair], rtol=1e-2)
    tab.focus("canvas.map >> nth=0")
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text(".readout >> nth=0").startswith("a = 13, b = 30, answer 43; ")


def test_downloads_are_the_tables(opened, results, tmp_path):
    tab = opened(fragment="#operator=division&neuron=5.9")
    for button, rows in (("Download CSV", 3), ("Download list", 900)):
        with tab.expect_download() as download:
            tab.click(f"button:text('{button}')")
        download.value.save_as(tmp_path / "rows.csv")
        with (tmp_path / "rows.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        assert len(found) == rows
    one = next(row for row in found if (row["layer"], row["neuron"], row["format"]) == ("5", "9", FORMATS[2]))
    ranking = read(results, FORMATS[2], "division", "ranking").set_index(["layer", "neuron"])
    assert int(one["rank"]) == ranking.loc[(5, 9), "rank"]
    assert float(one["ie"]) == pytest.approx(ranking.loc[(5, 9), "ie_mean"], rel=1e-3)
    assert one["model"] == MODEL


@pytest.mark.parametrize("width", [480, 1280])
def test_nothing_overflows_and_hundreds_of_neurons_stay_smooth(opened, results, width):
    tab = opened()
    tab.set_viewport_size({"width": width, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    start = time.monotonic()
    for _ in range(30):
        tab.keyboard.press("j")
        tab.wait_for_selector("canvas.map")
    assert (time.monotonic() - start) / 30 < 0.25
    assert chosen(tab) == [list(neurons_in(results))[30]]


def test_an_operator_without_shared_neurons(open_from_disk, results, tmp_path):
    """Where the formats share no neuron, the list is empty and the page says so."""
    whole = read_cell(results / MODEL / "code/addition")
    grid = make_grid("a + b", 40)
    nothing = np.empty((0, len(grid.a)), dtype=np.float32)
    maps = map_files.from_arrays(map_files.to_arrays(nothing, nothing, grid, {}))
    found, texts = whole.direct
    rows = {
        name: getattr(found, name)[:0] for name in ("neurons", "unit_logits", "final_scale", "top", "top_logits")
    }
    both = {name: getattr(found, name)[:0, :0] for name in ("written", "unit_inputs", "input_scale")}
    direct = replace(found, **rows, **both), texts
    empty = replace(
        whole,
        effects=whole.effects.iloc[:0],
        problems=whole.problems.iloc[:0],
        heuristics=whole.heuristics.iloc[:0],
        direct=direct,
        maps=maps,
    )
    cells = {"addition": dict.fromkeys(FORMATS, empty), "division": dict.fromkeys(FORMATS, whole)}
    path = tmp_path / "m.html"
    path.write_text(page.browser_page("m", ["m"], cells, 200, OPERATORS))
    tab = open_from_disk(path)
    assert tab.inner_text("#count") == "0 of 0 neurons"
    assert tab.inner_text("#detail") == "No neuron passes the filters."
    tab.click("#show-sum")
    tab.wait_for_selector("#panels p")
    assert "No neuron is shared in this operator" in tab.inner_text("#panels")
    tab.click("#show-neurons")
    tab.select_option("#operator", "division")
    tab.wait_for_selector("canvas.map")
    assert tab.inner_text("#count") == "300 of 300 neurons"


def test_a_table_of_problems_has_effects_and_no_maps(open_from_disk, results, tmp_path):
    """On one page, made by the command, with an operator that is an expression."""
    given = tables_of(results / MODEL)
    files = {name: file for name, file in FILES.items() if name not in ("heuristics", "activation_maps")}
    cells = [
        f"{n}/{f}/plural={results / MODEL / f / 'addition' / file}" for n, file in files.items() for f in FORMATS
    ]
    asked = {**OPERATORS, "plural": "answer in plural.csv"}
    words = ["--model", MODEL, "--models", MODEL, "--tables", *given, *cells, "--k", "200"]
    words += ["--operators", *(f"{name}={text}" for name, text in asked.items())]
    path = tmp_path / "m.html"
    assert main(["browser", *words, "--output", str(path)]) == 0
    data = data_of(path)["operators"]
    assert set(data["plural"]) == {"neurons", "sums", "asked"}
    keys = ("layer", "neuron", "rank", "ie", "knockout_probability", "keep_normalized_logit")
    same = {(one["layer"], one["neuron"]): [one[key] for key in keys] for one in data["addition"]["neurons"]}
    assert {(one["layer"], one["neuron"]): [one[key] for key in keys] for one in data["plural"]["neurons"]} == same
    tab = open_from_disk(path, "#operator=addition&agreement=same")
    tab.wait_for_selector("canvas.map")
    tab.select_option("#operator", "plural")
    assert tab.inner_text("#count") == "300 of 300 neurons"
    told = tab.inner_text("#detail")
    assert "plural: answer in plural.csv." in told
    assert "a table of problems without numbers" in told
    assert tab.is_disabled("#family")
    assert not tab.query_selector_all("canvas.map")
    place = listed(tab).index(chosen(tab)[0])
    tab.keyboard.press("Escape")
    tab.keyboard.press("j")
    assert chosen(tab) == [listed(tab)[place + 1]]
    tab.select_option("#operator", "addition")
    tab.wait_for_selector("canvas.map")
    assert not tab.is_disabled("#family")


def test_effects_of_other_neurons_are_refused(results):
    one = read_cell(results / MODEL / "code/addition")
    plain = replace(one, heuristics=None, maps=None)
    fewer = replace(plain, effects=one.effects.iloc[1:])
    with pytest.raises(UserError, match="m, plural: the formats' maps or effects are of other neurons"):
        neurons.neurons_of({"a": plain, "b": fewer}, "m, plural")
    with pytest.raises(UserError, match="other neurons"):
        neurons.neurons_of({"a": one, "b": plain}, "m, plural")
