"""The neuron browser: its data against the tables, and the page in a real browser, opened from disk."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from browser_cells import (
    ASKED,
    FORMATS,
    MODEL,
    OPERATORS,
    OTHER,
    PAIRS,
    WORDS,
    data_of,
    heuristics_table,
    read_cell,
    unpack_bytes,
)

from form_invariance.browser import neurons, packing, page
from form_invariance.errors import UserError
from form_invariance.stages.heuristics.pairs import make_grid


def read(results, name, operator, table):
    return pd.read_parquet(results / MODEL / name / operator / f"{table}.parquet")


def test_the_pages_numbers_are_the_tables(results):
    data = data_of(results / f"browser/{MODEL}.html")
    assert (data["formats"], data["k"], list(data["operators"])) == (FORMATS, 200, list(ASKED))
    for operator in ASKED:
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
    tokens = pd.read_parquet(results / MODEL / "promoted_tokens.parquet").set_index(
        ["layer", "neuron", "direction"]
    )
    for (layer, neuron), direction in zip(PAIRS[::50], ["promotes", "suppresses"] * 3, strict=True):
        rows = tokens.loc[(layer, neuron, direction)]
        told = data["tokens"][f"{layer}.{neuron}"][direction]
        assert [text for text, _ in told] == rows["text"].tolist()
        np.testing.assert_allclose([logit for _, logit in told], rows["logit"], rtol=1e-2)


def test_the_rows_shown_are_those_that_activate_a_neuron_most(results):
    """In absolute value, by the mean of the formats; the sums are made neuron by neuron here."""
    tables = [read(results, name, WORDS, "row_activations") for name in FORMATS]
    for one in data_of(results / f"browser/{MODEL}.html")["operators"][WORDS]["neurons"][::40]:
        own = [t[(t["layer"] == one["layer"]) & (t["neuron"] == one["neuron"])].reset_index() for t in tables]
        sizes = abs(sum(table["activation"] for table in own))
        best = sizes.sort_values(ascending=False).index[: neurons.ROWS]
        assert [row[:2] for row in one["rows"]] == [[f"w{n}", f"w{n}s"] for n in best]
        shown = np.array([row[2:] for row in one["rows"]])
        np.testing.assert_allclose(shown.T, [table["activation"][best] for table in own], rtol=1e-3)


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


def test_files_of_other_neurons_are_refused(results):
    one, other = (read_cell(results / MODEL / "code" / operator) for operator in OPERATORS)
    words = replace(one, heuristics=None, maps=None, rows=read(results, "code", WORDS, "row_activations"))
    fewer = replace(words, rows=words.rows.iloc[30:])
    for first, second in ((one, other), (words, fewer), (one, words)):
        with pytest.raises(UserError, match="formats have activations of different neurons or problems"):
            neurons.neurons_of({"a": first, "b": second}, "m, addition")
    tokens = pd.read_parquet(results / MODEL / "promoted_tokens.parquet")
    with pytest.raises(UserError, match="table of promoted tokens has other neurons"):
        page.browser_page("m", ["m"], {"addition": {"a": one}}, tokens.iloc[6:], 200, OPERATORS)


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
    captions = tab.eval_on_selector_all("#maps figcaption", "all => all.map((one) => one.textContent)")
    assert captions == [*FORMATS, *FORMATS]
    codes = tab.eval_on_selector_all(".tokens code", "all => all.map((one) => one.textContent)")
    assert codes[1:3] == ["\\n", "</script><b>"], "hostile text is shown as it is"


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
    assert again.title().endswith(OTHER)
    assert chosen(again) == ["3.10"]


def test_a_pixel_is_where_its_operands_are(opened, results):
    """The smallest and the largest value of all formats have the scale's end colours; a goes right, b up."""
    tab = opened(fragment="#operator=division&neuron=3.8")
    values = unpack_maps(neurons_in(results, "division")["3.8"]["maps"], len(FORMATS))
    grid, colours = make_grid("a // b", 40), data_of(results / f"browser/{MODEL}.html")["colours"]
    script = "all => all.map((one) => [...one.getContext('2d').getImageData(0, 0, 40, 40).data])"
    images = np.array(tab.eval_on_selector_all("canvas.map", script)).reshape(-1, 40, 40, 4)
    for place, colour in ((values.argmin(), colours[0]), (values.argmax(), colours[-1])):
        name, pair = np.unravel_index(place, values.shape)
        red, green, blue, _ = images[name, 39 - grid.b[pair], grid.a[pair]]
        assert f"#{red:02x}{green:02x}{blue:02x}" == colour
    assert (images[:, 39, 5, 3] == 0).all(), "division by 0 has no pixel"


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


def test_a_table_of_words_has_rows_in_place_of_maps(opened, results):
    tab = opened(fragment="#operator=addition&agreement=same")
    tab.select_option("#operator", WORDS)
    assert len(listed(tab)) == 300
    assert tab.is_disabled("#family")
    assert not tab.query_selector_all("canvas.map")
    one = data_of(results / f"browser/{MODEL}.html")["operators"][WORDS]["neurons"]
    best = next(n for n in one if f"{n['layer']}.{n['neuron']}" == chosen(tab)[0])["rows"]
    told = tab.eval_on_selector_all("#detail tr", "rows => rows.map((row) => row.innerText.split('\\t'))")[
        -len(best) :
    ]
    assert [row[:2] for row in told] == [row[:2] for row in best]
    np.testing.assert_allclose(np.array([row[2:] for row in told], float), [row[2:] for row in best], rtol=1e-2)
