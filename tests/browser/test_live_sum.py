"""The live sum: what the page adds up against the factors' file, in a real browser."""

import re
from dataclasses import replace

import numpy as np
import pytest
from browser_cells import FORMATS, MODEL, OPERATORS, PAIRS, PROBLEMS, data_of, drawn_curve, read_cell, unpack_bytes
from seaborn.utils import relative_luminance

from form_invariance.browser import packing, page
from form_invariance.browser.sums import in_order, sums_of
from form_invariance.errors import UserError
from form_invariance.stages.neuron_effects.direct_files import summed

IDS = [f"{layer}.{neuron}" for layer, neuron in PAIRS]


@pytest.fixture
def opened(open_from_disk, results):
    """Opens the live sum at one problem and waits until it has counted."""

    def open_page(fragment="", model=MODEL):
        tab = open_from_disk(results / "browser" / f"{model}.html", f"#view=sum{fragment}")
        counted(tab)
        return tab

    return open_page


def counted(tab):
    tab.wait_for_function(
        "[...document.querySelectorAll('#panels .share')].every((one) => one.textContent !== '…')"
    )
    tab.wait_for_selector("#panels .share")


def cell(results, name=FORMATS[0], operator="addition"):
    return read_cell(results / MODEL / name / operator)


def curve_of(own, problem, on=None):
    """The summed direct effect on every answer, in the order of the axis; and the answers."""
    found, texts = own.direct
    order = in_order(texts)
    return summed(found, on)[problem, order], [texts[i] for i in order]


def texts_of(tab, selector):
    return tab.eval_on_selector_all(selector, "all => all.map((one) => one.textContent)")


def wait_for_answer(tab, target):
    """Until the first panel is of a problem with this right answer."""
    tab.wait_for_function(f"document.querySelector('.told').textContent.includes('right is {target}.')")


def assert_shows(tab, values, panel=0, name="now"):
    """The panel's curve is these values, to a thousandth of their range."""
    np.testing.assert_allclose(drawn_curve(tab, name, panel), values, atol=1e-3 * np.ptp(values))


def fragment(own, problem, **more):
    row = own.problems.iloc[problem]
    return "".join(f"&{key}={value}" for key, value in {"a": row["a"], "b": row["b"], **more}.items())


@pytest.mark.parametrize(("operator", "problem"), [("addition", 0), ("addition", 41), ("division", 17)])
def test_the_curve_is_the_summed_direct_effect(opened, results, operator, problem):
    own = cell(results, operator=operator)
    tab = opened(f"&operator={operator}{fragment(own, problem)}")
    values, answers = curve_of(own, problem)
    assert_shows(tab, values)
    assert tab.get_attribute(".panel", "data-first") == answers[values.argmax()]
    row = own.problems.iloc[problem]
    assert [tab.input_value("#a"), tab.input_value("#b")] == [str(row["a"]), str(row["b"])]
    found, texts = own.direct
    told = tab.inner_text(".panel .told")
    assert f"The model answers {texts[found.top[problem, 0]]}" in told
    assert f"right is {row['target']}." in told
    assert (f'"{row["predicted"]}"' in told) == (row["predicted_token"] != row["model_token"])
    cells = texts_of(tab, ".panel td")
    best = np.argsort(-values, kind="stable")[:5]
    for place in range(5):
        _, theirs, logit, ours, effect = cells[5 * place : 5 * place + 5]
        assert (theirs, ours) == (texts[found.top[problem, place]], answers[best[place]])
        assert float(logit) == pytest.approx(found.top_logits[problem, place], rel=0.01)
        assert float(effect) == pytest.approx(values[best[place]], rel=0.01)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_models_answer_is_first_as_often_as_the_table_says(opened, results, operator):
    tab = opened(f"&operator={operator}&format={FORMATS[1]}")
    table = cell(results, FORMATS[1], operator).problems
    assert table["first"].sum() not in (0, PROBLEMS)
    assert int(tab.get_attribute(".panel .share", "data-model")) == table["first"].sum()
    right = (table["direct_token"] == table["answer_token"]).sum()
    assert tab.inner_text(".panel .share").endswith(f"in {table['first'].sum()}, the right answer in {right}.")


def test_switching_neurons_layers_and_families_off(opened, results):
    own = cell(results)
    tab = opened(fragment(own, 5))
    on = np.ones(len(PAIRS), dtype=bool)
    tab.click('#sum-neurons input[aria-label="Neuron 3.10"]')
    on[IDS.index("3.10")] = False
    assert_shows(tab, curve_of(own, 5, on)[0])
    np.testing.assert_allclose(
        drawn_curve(tab, "whole"), curve_of(own, 5)[0], atol=1e-3 * np.ptp(curve_of(own, 5)[0])
    )
    tab.click("#switches label:has-text('5 (150)') input")
    on[[layer == 5 for layer, _ in PAIRS]] = False
    assert_shows(tab, curve_of(own, 5, on)[0])
    # Every second neuron is labelled "operand range" in all formats; every fourth has another family too.
    tab.click("#switches label:has-text('operand range (150)') input")
    on[::2] = False
    assert_shows(tab, curve_of(own, 5, on)[0])
    counted(tab)
    first = summed(own.direct[0], on).argmax(1) == own.direct[0].top[:, 0]
    assert int(tab.get_attribute(".panel .share", "data-model")) == first.sum()
    tab.click("#switches label:has-text('neurons (300)') input")
    counted(tab)
    assert tab.inner_text(".panel .share") == "No neuron is on."
    assert np.ptp(drawn_curve(tab)) == 0
    tab.select_option("#operator", "division")
    tab.wait_for_selector("#sum-neurons input:checked")
    other = cell(results, operator="division")
    far = (other.problems["a"] - own.problems["a"][5]).abs() + (other.problems["b"] - own.problems["b"][5]).abs()
    assert_shows(tab, curve_of(other, int(far.to_numpy().argmin()))[0])


def test_the_graph_has_the_strongest_neurons_and_what_they_write(opened, results):
    own = cell(results)
    found, texts = own.direct
    tab = opened(fragment(own, 9, toward="right"))
    answer = texts.index(own.problems["target"][9])
    push = found.written[9] * found.final_scale[9] * found.unit_logits[:, answer]
    strongest = {IDS[i] for i in np.argsort(-np.abs(push))[:16]}
    nodes = tab.eval_on_selector_all(".panel .node", "all => all.map((one) => one.dataset.neuron)")
    assert set(nodes) == strongest
    edges = texts_of(tab, ".panel .edge title")
    between = [re.fullmatch(r"(\S+) adds (\S+) to the gate of (\S+)", text) for text in edges]
    shown = [(match[1], float(match[2]), match[3]) for match in between if match]
    effects = found.written[9][:, None] * found.unit_inputs * found.input_scale[9]
    chosen = [IDS.index(one) for one in strongest]
    largest = np.sort(np.abs(effects[np.ix_(chosen, chosen)]).ravel())[::-1][:24]
    assert len(shown) == 24
    for one, value, other in shown:
        expected = effects[IDS.index(one), IDS.index(other)]
        assert value == pytest.approx(expected, rel=0.01, abs=1e-3)
        assert abs(expected) >= largest[-1] - 1e-6
    to_answer = [re.fullmatch(r"(\S+) adds (\S+) to the logit of (\S+)", text) for text in edges]
    for match in filter(None, to_answer):
        assert float(match[2]) == pytest.approx(push[IDS.index(match[1])], rel=0.01, abs=1e-3)
        assert match[3] == own.problems["target"][9]
    tab.focus(f'.panel .node[data-neuron="{nodes[0]}"]')
    tab.keyboard.press("Enter")
    tab.wait_for_selector(f'#sum-neurons input[aria-label="Neuron {nodes[0]}"]:not(:checked)')
    on = np.array([name != nodes[0] for name in IDS])
    assert_shows(tab, curve_of(own, 9, on)[0])
    assert nodes[0] not in tab.eval_on_selector_all(".panel .node", "all => all.map((one) => one.dataset.neuron)")


def test_two_formats_stand_side_by_side(opened, results):
    own, other = cell(results), cell(results, FORMATS[2])
    tab = opened(fragment(own, 3))
    tab.select_option("#against", FORMATS[2])
    counted(tab)
    assert texts_of(tab, ".panel h3") == [FORMATS[0], FORMATS[2]]
    assert_shows(tab, curve_of(own, 3)[0])
    assert_shows(tab, curve_of(other, 3)[0], panel=1)
    left, right = (one.bounding_box() for one in tab.query_selector_all(".panel"))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    row = tab.eval_on_selector_all(
        "#sum-neurons tbody tr:first-child td", "all => all.map((one) => one.textContent)"
    )
    neuron = IDS.index(row[1])
    for format_number, part in enumerate((own, other)):
        assert float(row[3 + 2 * format_number]) == pytest.approx(part.direct[0].written[3, neuron], rel=0.01)


def test_problems_by_hand_by_key_and_by_link(opened, results):
    table = cell(results).problems
    tab = opened()
    first = table.iloc[0]
    assert tab.input_value("#a") == str(first["a"])
    several = next(a for a, group in table.groupby("a") if len(group) > 1)
    tab.select_option("#a", str(several))
    tab.wait_for_function(f"document.querySelector('#a').value === '{several}'")
    offered = tab.eval_on_selector_all("#b option", "all => all.map((one) => Number(one.value))")
    assert offered == sorted(table[table["a"] == several]["b"])
    tab.select_option("#b", str(offered[-1]))
    assert f"a={several}&b={offered[-1]}" in tab.url
    assert f"right is {several + offered[-1]}." in tab.inner_text(".panel .told")
    again = opened("#".join(tab.url.split("#")[1:]).removeprefix("view=sum"))
    here = [int(again.input_value(field)) for field in ("#a", "#b")]
    place = table[["a", "b"]].to_numpy().tolist().index(here)
    again.keyboard.press("j")
    following = table.iloc[(place + 1) % PROBLEMS]
    wait_for_answer(again, following["target"])
    again.keyboard.press("k")
    wait_for_answer(again, table["target"][place])
    again.keyboard.press("s")
    again.wait_for_selector("canvas.map")
    assert again.is_hidden("#sum")
    # A pair that is not stored: the nearest one is shown.
    far = opened("&a=1000&b=1000")
    nearest = table.iloc[int((2000 - table["a"] - table["b"]).to_numpy().argmin())]
    assert [far.input_value("#a"), far.input_value("#b")] == [str(nearest["a"]), str(nearest["b"])]


def test_a_heat_map_leads_to_the_live_sum(open_from_disk, results):
    row = cell(results).problems.iloc[7]
    tab = open_from_disk(results / "browser" / f"{MODEL}.html")
    tab.wait_for_selector("canvas.map")
    box = tab.query_selector("canvas.map").bounding_box()
    tab.mouse.click(
        box["x"] + (row["a"] + 0.5) / 40 * box["width"], box["y"] + (39.5 - row["b"]) / 40 * box["height"]
    )
    tab.click("button.open-sum")
    tab.wait_for_selector(".panel")
    assert [tab.input_value("#a"), tab.input_value("#b")] == [str(row["a"]), str(row["b"])]


def test_answers_that_are_words_are_bars(open_from_disk, results, tmp_path):
    own = cell(results)
    found, texts = own.direct
    words = {text: f"word{text}" for text in texts}
    problems = own.problems.assign(b=-1, target=own.problems["target"].map(words))
    plain = replace(own, problems=problems, direct=(found, list(words.values())), heuristics=None, maps=None)
    path = tmp_path / "m.html"
    path.write_text(page.browser_page("m", ["m"], {"plural": dict.fromkeys(FORMATS, plain)}, 200, {"plural": "x"}))
    tab = open_from_disk(path, "#view=sum")
    counted(tab)
    assert not tab.is_visible("#a")
    tab.select_option("#row", f"w{problems['a'][4]}")
    problem = int(np.flatnonzero(problems["a"] == problems["a"][4])[0])
    values, answers = curve_of(plain, problem)
    wait_for_answer(tab, problems["target"][problem])
    bars = texts_of(tab, ".bars div")
    shown = {text.split(" ")[0]: float(text.split(" ")[-1]) for text in bars}
    assert answers[values.argmax()] == next(iter(shown))
    assert problems["target"][problem] in shown
    for name, value in shown.items():
        assert value == pytest.approx(values[answers.index(name)], rel=0.01)
    assert not tab.query_selector_all("svg.curve")


@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(opened, results, width, scheme):
    tab = opened()
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    tab.select_option("#against", FORMATS[1])
    counted(tab)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for selector in (".told", "#sum-neurons td", "#sum > p"):
        colours = tab.eval_on_selector(selector, "one => getComputedStyle(one).color")
        back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert contrast(colours, back) > 4.5, selector


def contrast(one, other):
    """Contrast of two CSS colours (WCAG 2)."""
    channels = (np.array(re.findall(r"\d+", colour)[:3], dtype=float) / 255 for colour in (one, other))
    low, high = sorted(relative_luminance(colour) for colour in channels)
    return (high + 0.05) / (low + 0.05)


def test_a_large_model_stays_small_and_paints_at_once(open_from_disk, results, tmp_path):
    """Where problems and maps would need more than 8 MB, the page has fewer of both, and says so."""
    own = cell(results)
    found, texts = own.direct
    many = np.arange(40 * PROBLEMS) % PROBLEMS
    rows = {
        name: getattr(found, name)[many]
        for name in ("final_scale", "input_scale", "top", "top_logits", "log_total", "predicted")
    }
    written = np.random.default_rng(1).normal(size=(len(many), len(PAIRS))).astype(np.float32)
    larger = replace(found, **rows, written=written)
    large = replace(own, problems=own.problems.iloc[many].assign(b=np.arange(len(many))), direct=(larger, texts))
    cells = {name: dict.fromkeys(FORMATS, large) for name in OPERATORS}
    path = tmp_path / "m.html"
    path.write_text(page.browser_page("m", ["m"], cells, 200, OPERATORS))
    assert 4e6 < path.stat().st_size < 8e6
    tab = open_from_disk(path)
    tab.wait_for_selector("#rows tr")
    painted = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < 1000
    tab.click("#show-sum")
    counted(tab)
    shown = data_of(path)["operators"]["addition"]["sums"]
    assert len(shown["answer"]) < shown["stored"] == len(many)
    assert f"Over {len(shown['answer'])} problems (of {len(many)} in the table)" in tab.inner_text(".panel .share")


def test_packed_rows_are_exact_to_a_65535th_of_their_range():
    rows = np.random.default_rng(0).normal(size=(4, 90)).astype(np.float32) * np.array([[1], [100], [1e-6], [0]])
    packed = packing.pack_rows(rows)
    low, step = (unpack_bytes(packed[name], "<f4")[:, None] for name in ("low", "step"))
    found = low + step * unpack_bytes(packed["codes"], "<u2").reshape(4, 90)
    assert (np.abs(found - rows) <= 0.6 * np.ptp(rows, axis=1, keepdims=True) / 65535 + 1e-12).all()


def test_answers_stand_in_the_order_of_their_numbers_or_the_alphabet():
    assert in_order(["10", "9", "-3"]).tolist() == [2, 1, 0]
    assert in_order(["pear", "9", "apple"]).tolist() == [1, 2, 0]


def test_other_problems_or_neurons_are_refused(results):
    one, other = cell(results), cell(results, operator="division")
    for wrong in (replace(one, problems=other.problems), replace(one, direct=_without_a_neuron(one))):
        parts = {"a": one, "b": wrong}
        problems = {name: part.problems for name, part in parts.items()}
        with pytest.raises(
            UserError, match="m, addition: the formats' direct effects are of other problems or neurons"
        ):
            sums_of(problems, {name: part.direct for name, part in parts.items()}, 99, "m, addition")


def _without_a_neuron(own):
    found, texts = own.direct
    return replace(found, neurons=found.neurons[1:]), texts
