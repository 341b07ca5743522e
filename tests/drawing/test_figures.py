"""Every figure from made-up tables has what a reader must find, in the sizes of a paper."""

import itertools
from importlib import import_module
from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled, groups_of, joined
from matplotlib.figure import Figure

from form_invariance.beyond.family_knockout.figure import KINDS
from form_invariance.beyond.family_knockout.table import FAMILY_KNOCKOUT
from form_invariance.beyond.specificity.table import SPECIFICITY
from form_invariance.drawing import style
from form_invariance.drawing.figures import figure_of
from form_invariance.errors import UserError
from form_invariance.experiment.questions import QUESTIONS
from form_invariance.stage_folders import part_of, stage_folders
from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.interventions import figure as interventions
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.overlap.table import DIFFERING, OPERATOR_OVERLAP, OVERLAP, RELIABILITY
from form_invariance.stages.probe.table import PROBE
from form_invariance.stages.transfer import figure as transfer
from form_invariance.stages.transfer.table import TRANSFER, TRANSFER_CONTRASTS
from form_invariance.verdicts.summary import figure as summary
from form_invariance.verdicts.summary.lines import verdicts_at
from form_invariance.verdicts.summary.table import BEYOND_OPERATOR, VERDICTS

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
    values = {"nothing": 0.3, "format": 0.25, "operator": 0.15, "both": 0.1}
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
    values = {"value": 0.75, "low": 0.6, "high": 0.9}
    whole = crossed(DIFFERING, k=ks, quantity="invariance", operators="all", **values)
    whole.loc[whole["k"] == ks[-1], [*values]] = np.nan
    chance = crossed(DIFFERING, k=ks, quantity="shuffled", differs="nothing", operators="all", value=0.05)
    return pd.concat([overlaps, chance, whole], ignore_index=True)


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
        n_neurons=9,
        prompts=32,
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


def family_knockout_table():
    """Over all cells; the second family has no neuron that could be ablated."""
    families, metrics = ["all", "result range", "operand modulo"], ["accuracy", "probability"]
    table = crossed(
        FAMILY_KNOCKOUT, neurons=[*KINDS], family=families, metric=metrics, format="all", operator="all", low=0.05
    )
    return table.assign(difference=0.1, high=0.2, cells=(table["family"] != "result range").astype(int))


FORMATS, OPERATORS = ("symbolic", "code", "word"), ("addition", "subtraction", "multiplication", "division")
SHOWN = 50
"""The circuit size of figures that show one."""


def tables_of(formats, operators, models, ks=KS):
    """Every table that a figure needs, by the name of the input; directions have pairs in turn."""
    directions = [f"{a}_to_{b}" for a, b in itertools.permutations(formats, 2)]
    pairs = itertools.cycle((600, 0))
    moved = {
        (o, d): transfer_table(next(pairs), ks).assign(
            **dict(zip(("donor", "target"), d.split("_to_"), strict=True))
        )
        for o in operators
        for d in directions
    }
    cells = list(itertools.product(formats, operators))
    cell, agreement, labelled = heuristic_tables()
    made = {
        "overlap": overlap(formats, ks),
        "reliability": reliability(formats, ks),
        "agreement": agreement,
        "labelled": labelled,
    }
    probes = {name: probe_table(name, operators, 1 + 9 * place) for place, name in enumerate(formats)}
    return {
        "interventions": joined(dict.fromkeys(cells, intervention_table(ks)), "format", "operator"),
        "heuristics": joined(dict.fromkeys(cells, cell), "format", "operator"),
        **{name: joined(dict.fromkeys(operators, table), "operator") for name, table in made.items()},
        "probe": joined({**probes, "all": probe_table("+".join(formats), operators, 1)}, "format"),
        "transfer": joined(moved, "operator", "direction"),
        "transfer_contrasts": contrasts_table(operators, directions, ks),
        "operator_overlap": operator_overlap(formats, operators, ks),
        "differing": differing_table(ks),
        "specificity": specificity_table(formats, operators, ks),
        "family_knockout": family_knockout_table(),
        "verdicts": joined(dict.fromkeys(models, verdicts(ks)), "model"),
    }


def every_figure(tables):
    """Each figure of each stage, by name."""
    for stage, folder in sorted(stage_folders().items()):
        if not (folder / "figure.py").exists():
            continue
        module = import_module(f"form_invariance.{part_of(stage, 'figure')}")
        for name, value in list(vars(module).items()):
            if callable(value) and not name.startswith("_") and get_type_hints(value).get("return") is Figure:
                draw, inputs = figure_of(stage, name)
                yield name, draw({one: tables[one] for one in inputs}, "m", SHOWN)


@pytest.fixture(scope="module")
def paper():
    """Every figure at the size of the default experiment, laid out."""
    models = ("embedded-shared", "embedded-separate")
    figures = dict(every_figure(tables_of(FORMATS, OPERATORS, models, (10, 20, 50, 100, 200, 500))))
    for figure in figures.values():
        style._settle(figure)
    return figures


def test_a_reader_finds_what_is_drawn(paper):
    """Each figure has a title, each axis with numbers a name or a colour bar, and it fits on a page of ACL."""
    for name, figure in paper.items():
        width, height = figure.get_size_inches() * 2.54
        assert width == pytest.approx(16, abs=0.01), name
        assert height <= 24.7, name
        panels = [axes for axes in figure.axes if axes.get_visible() and axes.has_data()]
        assert panels, name
        assert figure.get_suptitle(), name
        for whole, side in ((figure._supxlabel, "x"), (figure._supylabel, "y")):
            named = [getattr(axes, f"{side}axis").get_label_text() for axes in panels]
            words = [tick.get_text() for axes in panels for tick in getattr(axes, f"get_{side}ticklabels")()]
            assert (whole and whole.get_text()) or any(named) or not any(w.isdigit() for w in words), (name, side)


@pytest.mark.parametrize("name", ["keep_only", "knockout", "transfer"])
def test_what_shares_no_neuron_has_no_panel(name):
    tables = tables_of(FORMATS, OPERATORS, ["m"])
    draw, inputs = figure_of("transfer" if name == "transfer" else "interventions", name)
    (key,) = inputs
    empty = tables[key]["operator"].eq("division")
    measured = tables[key].select_dtypes("float64").columns
    for none in (empty, empty | True):
        table = tables[key].copy()
        table.loc[none, "n_neurons"] = 0
        table.loc[none, measured] = np.nan
        figure = draw({key: table}, "m", SHOWN)
        titles = [axes.get_title() for axes in figure.axes[:4]]
        assert titles == ([] if none.all() else [*OPERATORS[:3], ""])
        assert "shared" in figure.get_suptitle() or name == "transfer"


def test_a_size_without_shared_neurons_is_not_drawn():
    full = intervention_table()
    measured = [column for columns in interventions.METRICS.values() for column in columns]
    none = (full["neurons"] == "circuit") & (full["k"] == 10)
    full.loc[none, measured] = np.nan
    full.loc[none, "n_neurons"] = 0
    figure = interventions.keep_only({"interventions": full.assign(format="s", operator="+")}, "m", SHOWN)
    for axes in figure.axes:
        points = [x for line in axes.lines if line.get_marker() == "o" for x, y in line.get_xydata() if y == y]
        assert points == [50]


def test_the_summary_has_every_question_with_its_operators_and_verdict():
    """Of two models, of which one shares no neuron."""
    table, measured = verdicts(), ["value", "control_value", "difference", "low", "high"]
    empty = table.copy()
    empty.loc[empty["question"] != "same", measured] = np.nan
    empty.loc[empty["question"] != "same", "verdict"] = "undefined"
    every = joined({"m": table, "n": empty[empty["question"] != "exchange"]}, "model")
    figure = summary.summary({"verdicts": every}, "all models", SHOWN)
    for model, axes in zip("mn", figure.axes, strict=True):
        decided = verdicts_at(every[every["model"] == model], SHOWN).set_index("question")
        said = [text.get_text() for text in axes.texts]
        drawn = [y for line in axes.lines if line.get_marker() == "o" for x, y in line.get_xydata() if x == x]
        for place, question in enumerate(QUESTIONS):
            known = question in decided.index
            assert said[place] == (decided["verdict"][question] if known else "undefined"), (model, question)
            assert (place in drawn) == (
                known and decided["difference"][question] == decided["difference"][question]
            )


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path):
    figure, _ = style.panels(1, 1, height=1)
    with pytest.raises(UserError, match="must end in"):
        style.save(figure, [tmp_path / "x.png", tmp_path / "x.bmp"])
    assert not list(tmp_path.iterdir())


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


def test_intervals_are_drawn(paper):
    """In every panel whose table has intervals there are bands, of which each has its line."""
    bands = {
        "probe": len(FORMATS) + 1,
        "overlap": 1 + 1 + 3,
        "knockout": 4,
        "transfer": 4,
        "transfer_contrasts": 1,
    }
    for name, count in bands.items():
        panels = [
            sum(any(np.ptp(path.vertices, axis=0).all() for path in one.get_paths()) for one in axes.collections)
            for axes in paper[name].axes
        ]
        assert set(panels) == {count}, (name, panels)
