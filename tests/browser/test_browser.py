"""The neuron browser: its data against the tables, and the page in a real browser, opened from disk."""

import base64
import json
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from example_tables import filled
from planted_models import EXPRESSION, PLANTED, TEMPLATES
from planted_run import OPERATOR

from form_invariance.beyond.neuron_effects.table import ROW_ACTIVATIONS
from form_invariance.browser import command, neurons, page
from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.pairs import make_grid
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.tables.files import read_tensors

pytestmark = pytest.mark.slow

FORMATS, WORDS, MODEL = list(TEMPLATES), "plural", "sha&red <b>"
ASKED = {OPERATOR: EXPRESSION, WORDS: "answer in plural.csv"}
HOSTILE = "</script><b>"


@pytest.fixture(scope="module")
def cells(planted):
    """Cells by operator and format: the planted model's; and the same as if a table of 30 words had been asked."""
    rng, found = np.random.default_rng(0), {OPERATOR: {}, WORDS: {}}
    for name in FORMATS:
        files = {"ranking": "ranking", "effects": "neuron_effects", "heuristics": "heuristics"}
        tables = {key: pd.read_parquet(planted.cell(name, f"{file}.parquet")) for key, file in files.items()}
        arrays = read_tensors(planted.cell(name, "activation_maps.safetensors"), map_files.KIND)[0]
        maps = map_files.from_arrays(arrays)
        # A sum's maps look the same where the operands change places.
        maps = replace(maps, maps=maps.maps * np.linspace(1, 2, maps.maps.shape[-1], dtype=np.float32))
        found[OPERATOR][name] = neurons.CellTables(**tables, maps=maps)
        rows = tables["effects"][["layer", "neuron"]].merge(pd.DataFrame({"row": range(30)}), how="cross")
        rows = filled(
            ROW_ACTIVATIONS,
            rows,
            target=lambda table: "<i>w" + table["row"].astype(str) + "s",
            fields=lambda table: [json.dumps({"word": f"<b>w{n}"}) for n in table["row"]],
            activation=rng.normal(size=len(rows)),
        )
        found[WORDS][name] = replace(found[OPERATOR][name], heuristics=None, maps=None, rows=rows)
    return found


@pytest.fixture(scope="module")
def tokens(planted):
    """The tokens that neurons promote; one is a hostile text."""
    table = pd.read_parquet(planted.folder / "shared/promoted_tokens.parquet")
    return table.assign(text=table["text"].mask(table["rank"] == 2, HOSTILE))


@pytest.fixture(scope="module")
def path(cells, tokens, tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "page.html"
    path.write_text(page.browser_page(MODEL, [MODEL], cells, tokens, PLANTED, ASKED))
    return path


@pytest.fixture(scope="module")
def data(path):
    text = path.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0]
    return json.loads(text)


def test_the_pages_numbers_are_the_tables(data, cells, tokens):
    assert (data["formats"], data["k"], list(data["operators"])) == (FORMATS, PLANTED, list(ASKED))
    for operator, own in cells.items():
        found = data["operators"][operator]["neurons"]
        assert len(found) == 2 * PLANTED
        ranks = [sum(one["rank"]) for one in found]
        assert ranks == sorted(ranks)
        for number, cell in enumerate(own.values()):
            ranking, effects = (table.set_index(["layer", "neuron"]) for table in (cell.ranking, cell.effects))
            for one in found:
                key = (one["layer"], one["neuron"])
                assert one["rank"][number] == ranking.loc[key, "rank"]
                assert one["ie"][number] == pytest.approx(ranking.loc[key, "ie_mean"], rel=1e-3)
                knocked = effects.loc[key, "knockout_probability"]
                assert one["knockout_probability"][number] == pytest.approx(knocked, rel=1e-2)
    labelled = [cell.heuristics.query("label and activations == 'observed'") for cell in cells[OPERATOR].values()]
    for one in data["operators"][OPERATOR]["neurons"]:
        for mode in ("strict", "reference"):
            key = [one["layer"], one["neuron"], mode]
            own = (rows[rows[["layer", "neuron", "mode"]].eq(key).all(axis=1)] for rows in labelled)
            assert one[f"agreement_{mode}"] == neurons.agreement([set(rows["family"]) for rows in own])
    for (layer, neuron, direction), rows in tokens.groupby(["layer", "neuron", "direction"]):
        told = data["tokens"][f"{layer}.{neuron}"][direction]
        assert [text for text, _ in told] == rows["text"].tolist()
        np.testing.assert_allclose([logit for _, logit in told], rows["logit"], rtol=1e-2)


def test_the_cells_of_an_operator_are_its_own(tmp_path, monkeypatch):
    """No file is read: each path is used as the content of its file."""
    found, seen = {("s", "+"): "of +", ("s", "-"): "of -"}, {}
    monkeypatch.setattr(
        command, "matching_cells", lambda **given: (found, found if "ranking_tables" in given else {})
    )
    monkeypatch.setattr(command, "common_keys", lambda *_: {"model": "m"})
    monkeypatch.setattr(command, "read_table", lambda path, _: path)
    monkeypatch.setattr(command, "browser_page", lambda model, models, cells, *_: seen.update(cells) or "")
    given = (
        f"--{name}=x" for name in ("ranking-tables", "neuron-effects", "heuristics", "maps", "promoted-tokens")
    )
    words = ["browser", *given, "--row-activations", "--models=m", "--k=8", f"--output={tmp_path / 'x.html'}"]
    assert main([*words, '--asked={"+": "a + b", "-": "a - b"}']) == 0
    shown = {key: {name: one.ranking for name, one in cells.items()} for key, cells in seen.items()}
    assert shown == {"+": {"s": "of +"}, "-": {"s": "of -"}}


def test_the_rows_shown_are_those_that_activate_a_neuron_most(data, cells):
    """The order is by the absolute value of the mean over formats, computed here neuron by neuron."""
    tables = [cell.rows for cell in cells[WORDS].values()]
    for one in data["operators"][WORDS]["neurons"]:
        own = [t[(t["layer"] == one["layer"]) & (t["neuron"] == one["neuron"])].reset_index() for t in tables]
        sizes = abs(sum(table["activation"] for table in own))
        best = sizes.sort_values(ascending=False).index[: neurons.ROWS]
        assert [row[:2] for row in one["rows"]] == [[f"word: <b>w{n}", f"<i>w{n}s"] for n in best]
        shown = np.array([row[2:] for row in one["rows"]])
        np.testing.assert_allclose(shown.T, [table["activation"][best] for table in own], rtol=1e-3)


def test_families_hold_the_best_heuristic_and_its_null():
    rows = [
        ("observed", "op1_range_10_19", "operand range", 0.95, False),
        ("observed", "op1_range_0_9", "operand range", 0.9, True),
        ("observed", "result_1mod3", "result modulo", 0.4, False),
        ("shuffled", "op1_range_0_9", "operand range", 0.7, True),
    ]
    names, of = "activations heuristic family score label", {"layer": 3, "neuron": 7, "base_rate": 0.1}
    table = filled(HEURISTICS, rows, names, mode="reference", neurons="shared", **of)
    assert neurons.families(table) == {
        ("reference", 3, 7): {
            "operand range": ["op1_range_0_9", 0.9, 0.1, 1, 0.7],
            "result modulo": ["result_1mod3", 0.4, 0.1, 0, None],
        }
    }, "a label comes before a higher score without one"


@pytest.mark.parametrize(
    ("sets", "said"),
    [("- -", "none"), ("a -", "some"), ("ab ab", "same"), ("ab b", "common"), ("a b", "different")],
)
def test_how_formats_agree_on_a_neuron(sets, said):
    assert neurons.agreement([set(one.strip("-")) for one in sets.split()]) == said


def test_files_of_other_neurons_are_refused(cells, tokens):
    one, words = (cells[operator]["code"] for operator in ASKED)
    fewer = replace(words, rows=words.rows.iloc[30:])
    moved = replace(one, maps=replace(one.maps, neurons=one.maps.neurons + 1))
    for first, second in ((one, moved), (words, fewer), (one, words)):
        with pytest.raises(UserError, match="formats have activations of different neurons or problems"):
            neurons.neurons_of({"a": first, "b": second}, "m, addition")
    fewer = tokens[tokens["neuron"] != tokens["neuron"].iloc[0]]
    with pytest.raises(UserError, match="table of promoted tokens has other neurons"):
        page.browser_page("m", ["m"], {OPERATOR: {"a": one}}, fewer, PLANTED, ASKED)


def unpacked(text, dtype):
    """What `pack_bytes` packed, as the page's script unpacks it; (n,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=dtype)


def unpacked_maps(packed):
    """The maps (formats, N) of `pack_maps`, exact to half a step of the scale."""
    differences = unpacked(packed["maps"], np.uint8).reshape(len(FORMATS), -1)
    codes = differences.astype(np.int64).cumsum(1) % page.LEVELS
    return packed["low"] + codes * (packed["high"] - packed["low"]) / (page.LEVELS - 1)


def test_the_pages_maps_are_the_files(data, cells):
    own, grid = data["operators"][OPERATOR], make_grid(EXPRESSION, 30)
    one = own["neurons"][3]
    half_a_step = (one["maps"]["high"] - one["maps"]["low"]) / (page.LEVELS - 1) / 2
    for found, cell in zip(unpacked_maps(one["maps"]), cells[OPERATOR].values(), strict=True):
        assert np.abs(found - cell.maps.maps[one["row"]]).max() < 1.1 * half_a_step
    np.testing.assert_array_equal(unpacked(own["a"], np.uint16), grid.a)
    np.testing.assert_array_equal(unpacked(own["b"], np.uint16), grid.b)
    np.testing.assert_array_equal(np.array(own["answers"])[unpacked(own["place"], np.uint16)], grid.answer)


def texts(tab, selector):
    return tab.eval_on_selector_all(selector, "all => all.map((one) => one.innerText)")


def test_the_best_neurons_have_their_maps_as_long_as_there_is_room(data, cells):
    every = data["operators"][OPERATOR]["neurons"]
    room = sum(len(one["maps"]["maps"]) + len(one["logits"]) for one in every[:5])
    given = [{"row": one["row"]} for one in every]
    page.add_maps({OPERATOR: {"neurons": given}}, {OPERATOR: cells[OPERATOR]}, room)
    assert ["maps" in one for one in given] == [place < 5 for place in range(len(every))]


def test_it_lists_the_neurons_and_shows_hostile_text_as_it_is(open_from_disk, path, data):
    tab = open_from_disk(path)
    tab.wait_for_selector("canvas.map")
    assert texts(tab, "#maps figcaption") == [*FORMATS, *FORMATS]
    assert texts(tab, ".tokens code").count(HOSTILE) == 2
    assert tab.title().endswith(MODEL)
    assert texts(tab, "#detail th")[2] == "Effect, mean ± SD over prompts"
    assert texts(tab, "#mode option") == ["strict", "reference"]
    listed = tab.eval_on_selector_all("#rows tr", "rows => rows.map((row) => row.dataset.neuron)")
    assert listed == [f"{one['layer']}.{one['neuron']}" for one in data["operators"][OPERATOR]["neurons"]]
    tab.select_option("#operator", WORDS)
    assert not tab.query_selector_all("canvas.map")
    rows = [row.split("\t")[:2] for row in texts(tab, "#detail tr")]
    best = data["operators"][WORDS]["neurons"][0]["rows"]
    assert rows[1 : 1 + len(best)] == [row[:2] for row in best]
    assert texts(tab, "#columns th")[-1] == "Knock"
    assert [tab.is_visible(f"#{name}") for name in ("layer", "mode", "family")] == [True, False, False]
    listed = texts(tab, "#rows tr")
    tab.evaluate("location.hash = 'operator=" + WORDS + "&layer=2'")
    tab.wait_for_function("document.querySelectorAll('#rows tr').length < " + str(len(listed)))
    tab.evaluate("location.hash = 'operator=" + WORDS + "'")
    tab.wait_for_function("document.querySelectorAll('#rows tr').length == " + str(len(listed)))


def test_a_pixel_is_where_its_operands_are(open_from_disk, path, data):
    """Pixels show the file's values; the smallest and largest have the scale's end colours. a goes right, b up."""
    one = data["operators"][OPERATOR]["neurons"][5]
    tab = open_from_disk(path, f"#operator={OPERATOR}&neuron={one['layer']}.{one['neuron']}")
    tab.wait_for_selector("canvas.map")
    values, grid = unpacked_maps(one["maps"]), make_grid(EXPRESSION, 30)
    script = "gridOf(state.operator).then((grid) => mapsOf(here().neurons[5], grid)).then((maps) => maps.k)"
    np.testing.assert_allclose(tab.evaluate(script), values, rtol=1e-6, atol=1e-6)
    script = "own => { const a = DATA.operators[own].b; DATA.operators.turned = { ...DATA.operators[own], a }; }"
    tab.evaluate(script, OPERATOR)
    assert tab.evaluate("gridOf('turned').then((grid) => [...grid.a])") == grid.b.tolist()
    script = "all => all.map((one) => [...one.getContext('2d').getImageData(0, 0, 30, 30).data])"
    images = np.array(tab.eval_on_selector_all("canvas.map", script)).reshape(-1, 30, 30, 4)
    colours = np.array([[*bytes.fromhex(colour[1:])] for colour in data["colours"]])
    codes = np.floor((values - values.min()) / np.ptp(values) * (len(colours) - 1) + 0.5).astype(int)
    np.testing.assert_array_equal(images[: len(FORMATS), 29 - grid.b, grid.a, :3], colours[codes])
