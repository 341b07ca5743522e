"""Figures from made-up tables: ready for a paper, whatever the number of formats, and drawn the same twice."""

import itertools
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled, groups_of, joined

from form_invariance.bench import figure as bench
from form_invariance.bench.table import BENCHMARK
from form_invariance.drawing import style
from form_invariance.errors import UserError
from form_invariance.stages.agreement import figure as heuristics
from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
from form_invariance.stages.attribution.compute import ESTIMATES
from form_invariance.stages.audit import figure as audit
from form_invariance.stages.audit.table import AUDIT
from form_invariance.stages.family_knockout.figure import KINDS, family_knockout
from form_invariance.stages.family_knockout.table import FAMILY_KNOCKOUT
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.interventions import figure as interventions
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.overlap import figure as overlap_figure
from form_invariance.stages.overlap.table import DIFFERING, OPERATOR_OVERLAP, OVERLAP, RELIABILITY
from form_invariance.stages.planted import figure as planted
from form_invariance.stages.planted.table import PLANTED
from form_invariance.stages.probe import figure as probe
from form_invariance.stages.probe.table import PROBE
from form_invariance.stages.prompt_formats import token_boxes
from form_invariance.stages.questions import QUESTIONS
from form_invariance.stages.specificity import figure as specificity
from form_invariance.stages.specificity.figure import middle
from form_invariance.stages.specificity.table import SPECIFICITY
from form_invariance.stages.summary import figure as summary
from form_invariance.stages.summary.lines import verdicts_at
from form_invariance.stages.summary.table import BEYOND_OPERATOR, VERDICTS
from form_invariance.stages.transfer import figure as transfer
from form_invariance.stages.transfer.table import DOSE, TRANSFER, TRANSFER_CONTRASTS

pytestmark = pytest.mark.slow


KS = (10, 50)
ABLATED = ["faithfulness", "accuracy", "probability"]
FAMILIES = ("both modulo", "both range", "multi-result", "operand pattern", "operand value", "result modulo")


def overlap(formats, ks=KS):
    """Of the other rule nothing is drawn."""
    sizes = {"members": 6, "positive": 6, "intersection": 3, "union": 9, "chance": 0.01, "low": 0.3, "high": 0.4}
    rules = ["positive", "top_k"]
    table = crossed(OVERLAP, membership=rules, formats=groups_of(formats), k=ks, layer=[-1, 3], **sizes)
    used = table["membership"] == "positive"
    return table.assign(used=used, jaccard=np.where(used, 1 / 3, 2 / 3))


def verdicts(ks=KS):
    """Every question by its metrics, with differences that grow with k."""
    accuracy = {name: ["accuracy", "probability"] for name in ("specific", "exchange")}
    metrics = {"same": ["jaccard", BEYOND_OPERATOR], "sufficient": ABLATED, "necessary": ABLATED, **accuracy}
    rows = [
        (question, metric, name, k, place / 10, place / 10 - 0.1, place / 10 + 0.1)
        for question in QUESTIONS
        for metric in metrics.get(question, ["rate"])
        for name in ("all", "+", "-")
        for place, k in enumerate(ks)
    ]
    return filled(VERDICTS, rows, "question metric operator k difference low high", value=0.5, verdict="yes")


def operator_overlap(formats, operators, ks=KS):
    pairs = ["+".join(pair) for pair in itertools.combinations(operators, 2)]
    return crossed(OPERATOR_OVERLAP, format=[*formats], k=ks, operators=pairs, jaccard=0.2, chance=0.02)


def differing_table(ks=KS):
    values = {"nothing": 0.3, "wording": 0.28, "format": 0.25, "operator": 0.15, "both": 0.1}
    overlaps = crossed(
        DIFFERING,
        k=ks,
        differs=[*values],
        operators=["all", "addition"],
        quantity="overlap",
        value=lambda table: table["differs"].map(values),
        low=lambda table: table["value"] - 0.02,
        high=lambda table: table["value"] + 0.02,
    )
    whole = crossed(DIFFERING, k=ks, quantity="invariance", operators="all", value=0.75, low=0.6, high=0.9)
    return pd.concat([overlaps, whole], ignore_index=True)


def specificity_table(formats, operators, ks=KS):
    def damage(table):
        own, text = table["operator"] == table["task"], table["task"] == "text"
        return np.select([own, text], [0.9, np.nan], 0.1)

    return crossed(
        SPECIFICITY,
        format=[*formats],
        operator=[*operators],
        k=ks,
        intervention=["knockout", "keep_only"],
        task=[*operators, "copying", "comparing", "text"],
        neurons=["circuit", "random_effect", "random_variance", *(f"best_in_{name}" for name in formats)],
        **dict.fromkeys(("accuracy_damage", "probability_damage", "probability"), damage),
    )


def reliability(formats, ks=KS):
    parts = list(enumerate(formats))
    rows = [(k, f, kind, 0.8 - n / 50, 0.7, 0.9) for k in ks for n, f in parts for kind in ("parts", "median")]
    rows += [(k, "+".join(formats), "across_parts", 0.7, 0.6, 0.8) for k in ks]
    return filled(RELIABILITY, rows, "k format kind jaccard low high")


def intervention_table(ks=KS):
    rows = []
    runs = (("format", "all"), ("format", "last"), ("template", "all"))
    for kind, (means, place) in itertools.product(("keep_only", "knockout"), runs):
        for neurons, draws in (("circuit", [-1]), ("random", [0, 1, 2, 3, 4]), ("random_effect", [0])):
            for k, seed in itertools.product(ks[:1] if neurons == "random_effect" else ks, draws):
                rows.append((kind, means, place, neurons, k, seed, 0.5 + 0.1 * seed))
    names = "intervention means positions neurons k seed faithfulness_ratio"
    table = filled(INTERVENTIONS, rows, names, n_neurons=7)
    for value, low, high in interventions.METRICS.values():
        table = table.assign(**{value: table["faithfulness_ratio"], low: 0.4, high: 0.6})
    return table


def transfer_table(pairs=20, ks=KS):
    value = 0.5 if pairs else np.nan
    rates = {"recovered": value, "low": value - 0.1, "high": value + 0.1, "donor_answer": value}
    moved = ["matched", "mismatched", "same_answer", "harm_matched", "random", "not_shared"]
    parts = ((ks, moved), ([-1], ["all_late", "residual"]))
    tables = [crossed(TRANSFER, k=k, condition=names, pairs=pairs, n_neurons=9, **rates) for k, names in parts]
    return pd.concat(tables, ignore_index=True)


def contrasts_table(operators, directions, ks=KS):
    rows = [
        (*cell, k, name, 0.1 * place, 0.1 * place - 0.2, 0.1 * place + 0.1)
        for cell in itertools.product((*operators, "all"), (*directions, "all"))
        for k in ks
        for place, name in enumerate(transfer.TITLES)
    ]
    return filled(TRANSFER_CONTRASTS, rows, "operator direction k contrast difference low high")


def probe_table(trained, operators, positions):
    places = {"layer": range(6), "position": range(positions), "token": " apples"}
    rates = {"low": 0.1, "high": 0.9, "reachable": 1.0, "majority": 0.1, "shuffled": 0.0}
    table = crossed(PROBE, trained=trained, tested=trained, operator=["all", *operators], **places, **rates)
    return table.assign(accuracy=0.2 * table["layer"])


def heuristic_tables():
    modes = ["reference", "strict"]
    drawn = {"mode": modes, "activations": ["observed", "shuffled"], "family": FAMILIES, "neuron": range(9)}
    statistics = [(mode, *one) for mode in modes for one in (("exact", "all"), ("pair_jaccard", "any"))]
    of = {"kind": "shared", "activations": "observed"}
    values = {"scope": "all", "observed": 0.5, "null_mean": 0.25}
    return (
        crossed(HEURISTICS, **drawn, layer=3, neurons="shared", label=True),
        filled(AGREEMENT, statistics, "mode statistic over", **of, **values),
        crossed(LABELLED, mode=modes, neurons=1000, **of),
    )


def dose_table(formats, pairs):
    kinds, doses = ("strength", "neurons", "neurons_random"), (0, 0.5, 1)
    rows = [
        (*direction, kind, dose, dose / 4 if pairs else np.nan)
        for direction, kind, dose in itertools.product(itertools.permutations(formats, 2), kinds, doses)
    ]
    return filled(DOSE, rows, "donor target kind dose recovered", pairs=pairs, n_neurons=9)


def family_knockout_table():
    """Over all cells; the second family has no neuron that could be ablated."""
    families, metrics = ["all", "result range", "operand modulo"], ["accuracy", "probability"]
    table = crossed(
        FAMILY_KNOCKOUT, neurons=[*KINDS], family=families, metric=metrics, format="all", operator="all", low=0.05
    )
    return table.assign(difference=0.1, high=0.2, cells=(table["family"] != "result range").astype(int))


def audit_table(formats, operators, ks):
    cells = {"format": [*formats], "operator": [*operators], "k": ks, "method": [*ESTIMATES]}
    table = crossed(AUDIT, **cells, candidates=[10, 100, 528], layer=-1, rank_correlation=0.87, enough=300.0)
    place = table["format"].map({name: number for number, name in enumerate(formats)})
    return table.assign(recall=(table["candidates"] / table["k"]).clip(upper=1) - 0.01 * place)


def planted_table(formats):
    rows = []
    for circuit, measure in itertools.product(planted.TITLES, planted.MEASURES):
        where = {"overlap": ["all"], "transfer": [f"{formats[0]}_to_{formats[1]}"]}.get(measure, formats)
        rows += [(circuit, one, measure, 1.0, 0.9, 0.8, 1.0) for one in where]
        rows += [(circuit, one, measure, 0.0, 0.1, 0.0, 0.2) for one in where]
    return filled(PLANTED, rows, "circuit format measure expected value low high", layer=-1, random=0.1)


def bench_table():
    rows = [("replay", stage, tokens, -1, 8) for stage in ("hooked", "replay") for tokens in (5, 27)]
    rows += [("cost", stage, 5 * n, n, n) for stage in ("tokens", "prompts", "layer") for n in (1, 2)]
    rows += [("stages", stage, tokens, 1, 1) for stage in ("census", "patching") for tokens in (5, 27)]
    table = filled(BENCHMARK, rows, "suite stage tokens prompts units", seconds=1.0, share=0.5)
    return table.assign(layer=table["prompts"], candidates=table["prompts"])


def all_figures(formats, operators, models, ks=KS):
    """Every kind of figure, by name."""
    directions = [f"{a}_to_{b}" for a, b in itertools.permutations(formats, 2)]
    pairs = itertools.cycle((600, 0))
    moved = joined(
        {(o, d): transfer_table(next(pairs), ks) for o in operators for d in directions}, "operator", "direction"
    )
    cells = list(itertools.product(formats, operators))
    of_cells = {
        "interventions": joined(dict.fromkeys(cells, intervention_table(ks)), "format", "operator"),
        "heuristics": joined(dict.fromkeys(cells, heuristic_tables()[0]), "format", "operator"),
    }
    made = {
        "overlap": overlap(formats, ks),
        "reliability": reliability(formats, ks),
        "agreement": heuristic_tables()[1],
        "labelled": heuristic_tables()[2],
    }
    shared = {name: joined(dict.fromkeys(operators, table), "operator") for name, table in made.items()}
    probes = {f: probe_table(f, operators, 1 + 9 * place) for place, f in enumerate(formats)}
    probes = {"probe": joined(probes, "format"), "across": probe_table("+".join(formats), operators, 1)}
    doses = {o: dose_table(formats, n) for n, o in enumerate(operators)}
    every = {
        **of_cells,
        **shared,
        "transfer": moved,
        "transfer_contrasts": contrasts_table(operators, directions, ks),
        "operator_overlap": operator_overlap(formats, operators, ks),
    }
    yield "probe", probe.probe(probes, "m")
    yield "probe_positions", probe.probe_positions(probes, "m")
    yield "overlap", overlap_figure.overlap(every, "m")
    yield "differing", overlap_figure.differing({"differing": differing_table(ks)}, "m")
    yield "keep_only", interventions.keep_only(every, "m")
    yield "knockout", interventions.knockout(every, "m")
    yield ("specificity", specificity.specificity({"specificity": specificity_table(formats, operators, ks)}, "m"))
    yield "exchange", specificity.exchange({"specificity": specificity_table(formats, operators, ks)}, "m")
    yield "transfer", transfer.transfer(every, "m")
    yield "transfer_contrasts", transfer.transfer_contrasts(every, "m")
    yield "family_knockout", family_knockout({"family_knockout": family_knockout_table()}, "m")
    yield "dose", transfer.dose({"dose": joined(doses, "operator")}, "m")
    yield "heuristics", heuristics.heuristics(every, "m")
    yield "audit", audit.audit({"audit": audit_table(formats, operators, ks)}, "m")
    yield "planted", planted.planted({"planted": planted_table(formats)}, "m")
    yield "bench", bench.draw(bench_table(), "m")
    yield ("summary", summary.summary({"verdicts": joined(dict.fromkeys(models, verdicts(ks)), "model")}, "m"))
    tokens = ["226", " +", " ", "\n"] * 12
    yield "prompt_formats", token_boxes.draw([(f, o, tokens, "294") for f in formats for o in operators])


ALL_KINDS = ("probe_positions", "probe", "prompt_formats", "summary")
"""Figures that are written as every kind of file: meshes, bands, boxes, lines. One function writes them all."""


def written(folder, formats, models):
    """The bytes of every figure's files, by the file's name."""
    for name, figure in all_figures(formats, ["addition"], models):
        kinds = ("png", "svg", "pdf") if name in ALL_KINDS else ("svg",)
        style.save(figure, [folder / f"{name}.{kind}" for kind in kinds])
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.nightly
def test_the_same_tables_give_the_same_bytes(tmp_path):
    once, again = tmp_path / "once", tmp_path / "again"
    once.mkdir()
    again.mkdir()
    files = written(once, "sc", ["m"])
    assert written(again, "sc", ["m"]) == files
    assert all(len(content) > 2000 for content in files.values())


def test_figures_of_many_formats_and_models_are_drawn(tmp_path):
    assert all(len(content) > 2000 for content in written(tmp_path, "scwx", ["m", "n", "o"]).values())


def test_tokens_show_spaces_and_line_breaks():
    assert style.visible(" a\n") == "␣a↵"


@pytest.mark.parametrize("draw", [interventions.keep_only, interventions.knockout])
def test_a_circuit_without_neurons_is_not_drawn(draw):
    full = intervention_table()
    measured = [column for columns in interventions.METRICS.values() for column in columns]
    empty = full[full["neurons"] == "circuit"].assign(n_neurons=0, **dict.fromkeys(measured, np.nan))
    partly = pd.concat([empty[empty["k"] == 10], full[full["k"] == 50]])
    cells = {("s", "+"): full, ("c", "+"): empty, ("w", "+"): partly}
    figure = draw({"interventions": joined(cells, "format", "operator")}, "m")
    for place, axes in enumerate(figure.axes):
        name = "scw"[place % 3]
        assert axes.get_ylabel() == f"{name}\n{list(interventions.METRICS)[place // 3]}"
        assert [text.get_text() for text in axes.texts] == (["no shared neuron"] if name == "c" else [])
        points = [x for line in axes.lines if line.get_marker() == "o" for x, y in line.get_xydata() if y == y]
        assert points == {"s": [10, 50], "c": [], "w": [50]}[name]


def test_the_summary_has_every_question_with_its_operators_and_verdict():
    """Of two models, of which one shares no neuron."""
    table, measured = verdicts(), ["value", "control_value", "difference", "low", "high"]
    empty = table.copy()
    empty.loc[empty["question"] != "same", measured] = np.nan
    empty.loc[empty["question"] != "same", "verdict"] = "undefined"
    every = joined({"m": table, "n": empty[empty["question"] != "exchange"]}, "model")
    figure = summary.summary({"verdicts": every}, "all models")
    k = middle(table["k"])
    for model, axes in zip("mn", figure.axes, strict=True):
        decided = verdicts_at(every[every["model"] == model], k).set_index("question")
        said = [text.get_text() for text in axes.texts]
        drawn = [y for line in axes.lines if line.get_marker() == "o" for x, y in line.get_xydata() if x == x]
        for place, question in enumerate(QUESTIONS):
            known = question in decided.index
            assert said[place] == (decided["verdict"][question] if known else "undefined"), (model, question)
            assert (place in drawn) == (
                known and decided["difference"][question] == decided["difference"][question]
            )


@pytest.mark.parametrize("which", [["division"], ["addition", "division"]])
def test_operators_without_shared_neurons_have_their_panels(tmp_path, which):
    cell, agreement, labelled = heuristic_tables()
    operators = ["addition", "division"]
    cells = joined({("s", o): cell.iloc[:0] if o in which else cell for o in operators}, "format", "operator")
    agreed = joined(
        {o: agreement.assign(observed=np.nan) if o in which else agreement for o in operators}, "operator"
    )
    counts = joined({o: labelled.assign(neurons=0) if o in which else labelled for o in operators}, "operator")
    tables = {"heuristics": cells, "agreement": agreed, "labelled": counts}
    figure = heuristics.heuristics(tables, "m")
    style.save(figure, [tmp_path / "x.svg"])
    titles = [axes.get_title() for axes in figure.axes[:2]]
    assert titles[1] == "division\n0 neurons\nexact: no neuron\nJaccard: no neuron"
    assert ("no neuron" in titles[0]) == (len(which) == 2)


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path):
    figure, _ = style.panels(1, 1, height=1)
    with pytest.raises(UserError, match="must end in"):
        style.save(figure, [tmp_path / "x.png", tmp_path / "x.bmp"])
    assert not list(tmp_path.iterdir())


FORMATS, OPERATORS = ("symbolic", "code", "word"), ("addition", "subtraction", "multiplication", "division")


@pytest.fixture(scope="module")
def paper():
    """Every figure at the size of the default experiment, laid out."""
    figures = dict(
        all_figures(FORMATS, OPERATORS, ("embedded-shared", "embedded-separate"), (10, 20, 50, 100, 200, 500))
    )
    for figure in figures.values():
        style._settle(figure)
    return figures


def shown_texts(figure):
    """Every text that is drawn."""
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        legend = axes.get_legend()
        texts += [axes.title, *axes.texts, *(legend.get_texts() if legend else ())]
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            texts += [axis.label, *(tick.label1 for tick in axis._update_ticks())]
            texts += [tick.label2 for tick in axis._update_ticks()]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def test_widths_are_those_of_a_paper(paper, tmp_path):
    """ACL's columns are 7.7 cm wide, 0.6 cm apart and 24.7 cm high."""
    for name, figure in paper.items():
        width = (7.7 if name == "planted" else 2 * 7.7 + 0.6) / 2.54
        points = 72 * figure.get_size_inches()
        assert points[0] == pytest.approx(72 * width, abs=0.01), name
        assert points[1] <= 24.7 / 2.54 * 72, name  # the height of a page
    # A file has its figure's size: of all figures alike, since one function writes them.
    for name in ("planted", "prompt_formats", "overlap"):
        style.save(paper[name], [tmp_path / "x.pdf"])
        pdf = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", (tmp_path / "x.pdf").read_bytes())
        size = 72 * paper[name].get_size_inches()
        assert [float(one) for one in pdf.groups()] == pytest.approx(size, abs=0.01), name


def test_text_can_be_read_and_nothing_covers_it(paper):
    for name, figure in paper.items():
        figure.draw_without_rendering()
        texts = shown_texts(figure)
        sizes = {text.get_fontsize() for text in texts}
        assert 6 <= min(sizes) <= max(sizes) <= 9, (name, sizes)
        boxes = np.array([text.get_window_extent().extents for text in texts])
        outside = (boxes[:, :2] < -0.5) | (boxes[:, 2:] > np.array(figure.bbox.size) + 0.5)
        assert not outside.any(), (name, [texts[place].get_text() for place in np.argwhere(outside)[:, 0]])
        low, high = boxes[:, None, :2], boxes[:, None, 2:]
        common = np.minimum(high, high.swapaxes(0, 1)) - np.maximum(low, low.swapaxes(0, 1))
        touching = np.argwhere(np.triu((common > 0.5).all(-1), 1))
        assert not len(touching), (name, [(texts[a].get_text(), texts[b].get_text()) for a, b in touching])


def test_text_stays_text(paper, tmp_path):
    style.save(paper["summary"], [tmp_path / "x.svg", tmp_path / "x.pdf"])
    svg = (tmp_path / "x.svg").read_text()
    assert ">Specific to this operator?</text>" in svg
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1])
    assert width == pytest.approx(72 * (2 * 7.7 + 0.6) / 2.54, abs=0.01)
    content = (tmp_path / "x.pdf").read_bytes()
    assert b"/FontFile2" in content  # the font itself, as TrueType
    assert b"/Type3" not in content
    assert b"Date" not in content


def test_intervals_are_drawn(paper):
    """In every panel whose table has intervals there are bands, of which each has its line."""
    bands = {
        "probe": len(FORMATS) + 1,
        "overlap": 1 + 1 + 3,
        "knockout": 4,  # three circuits and the control with enough draws
        "transfer": 4,
        "transfer_contrasts": 1,
        "audit": len(ESTIMATES),
        "dose": len(transfer.DOSE_LOOKS),
    }
    for name, count in bands.items():
        panels = [
            sum(any(np.ptp(path.vertices, axis=0).all() for path in one.get_paths()) for one in axes.collections)
            for axes in paper[name].axes
        ]
        # Every other direction has no pairs.
        assert set(panels) == ({0, count} if name == "transfer" else {count}), (name, panels)


def test_the_colours_differ_without_colour_vision():
    """They are Okabe and Ito's, as matplotlib has them; the first three are blue, vermilion and bluish green."""
    theirs = [mpl.colors.to_hex(colour).upper() for colour in mpl.color_sequences["okabe_ito"]]
    assert {*style.COLOURS} < {*theirs}
    assert style.COLOURS[:3] == ("#0072B2", "#D55E00", "#009E73")


def test_every_format_has_a_look_of_its_own():
    names = [f"format {number}" for number in range(20)]
    colours, markers, hatches = style.colours(names), style.markers(names), style.hatches(names)
    assert len({colours[name] for name in names[:7]}) == 7
    assert len({markers[name] for name in names[:7]}) == len({hatches[name] for name in names[:7]}) == 7
    assert len({(colours[name], markers[name]) for name in names}) == 20
    assert len({(colours[name], hatches[name]) for name in names}) == 20
    # A format looks the same beside fewer and beside more others.
    assert style.colours(names[:2]).items() <= colours.items()


def test_a_format_looks_alike_in_every_figure(paper):
    def colour_of(artist):
        return mpl.colors.to_hex(artist.get_color() if hasattr(artist, "get_color") else artist.get_facecolor())

    for name in ("probe", "planted", "heuristics"):
        (legend,) = paper[name].legends
        texts = [text.get_text() for text in legend.get_texts()]
        looks = dict(zip(texts, legend.legend_handles, strict=True))
        for format_, colour in style.colours(FORMATS).items():
            assert colour_of(looks[format_]).upper() == colour, (name, format_)
    bars = {container[0].get_facecolor() for container in paper["heuristics"].axes[0].containers}
    assert {mpl.colors.to_hex(colour).upper() for colour in bars} == set(style.colours(FORMATS).values())
    titles = {text.get_text(): text.get_color() for text in paper["prompt_formats"].axes[0].texts}
    assert {name: titles[name] for name in FORMATS} == style.colours(FORMATS)
