"""The verdicts: each question's row equals the contrast that it is taken from."""

import re

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled

from form_invariance.cli import main
from form_invariance.experiment.contrasts.engine import verdict
from form_invariance.experiment.contrasts.table import CONTRASTS, RESIDUAL_CONTRASTS
from form_invariance.stages.overlap.table import DIFFERING, OVERLAP
from form_invariance.statistics import Z95
from form_invariance.tables.columns import ALL
from form_invariance.tables.files import write_table
from form_invariance.verdicts.summary.answer import answer
from form_invariance.verdicts.summary.compute import verdicts_table
from form_invariance.verdicts.summary.figure import summary
from form_invariance.verdicts.summary.lines import LEGEND, by_operator, side_by_side, verdict_lines, verdicts_at
from form_invariance.verdicts.summary.table import VERDICTS

FORMATS = {"k": 10, "format": ["word", "all"], "operator": ["word", "all"]}


def contrasts(schema=CONTRASTS, **columns):
    """A row of one cell and one of all cells for each combination of the columns, with verdicts by its limits."""
    table = crossed(
        schema,
        **{key: value for key, value in FORMATS.items() if key in schema.columns}
        | {"cells": 4, "prompts": 60, "limit_error": 0.0}
        | columns,
    )
    table = table[table["operator"] == table["format"]]
    first, second = table["first"], table["second"]
    difference = table["difference"].fillna(first - second) if "difference" in table else first - second
    words = list(map(verdict, table["low"], table["high"]))
    return table.assign(difference=difference, verdict=words).reset_index(drop=True)


def overlap(jaccards, half=0.1):
    rows = [
        (str(place), used, value, value - half, value + half)
        for place, jaccard in enumerate(jaccards)
        for used, value in ((True, jaccard), (False, 0.9))
    ]
    columns = {"k": 10, "layer": -1, "formats": "s+c+w", "chance": 0.05, "chance_spread": 0, "candidates": 40}
    return filled(OVERLAP, rows, "operator used jaccard low high", keys="operator", **columns)


def differing():
    overlaps = (("nothing", 0.6), ("format", 0.5), ("operator", 0.3), ("both", 0.2))
    rows = [
        ("overlap", what, operators, value + more, np.nan, np.nan, pairs)
        for what, value in overlaps
        for operators, more, pairs in (("all", 0, 18), ("+", 0.1, 9), ("-", -0.1, 9))
    ]
    rows += [
        ("operators_own", "", operators, 0.3, 0.3 - half, 0.3 + half, 0)
        for operators, half in (("all", 0.2), ("+", 0.1), ("-", 0.4))
    ]
    rows.append(("invariance", "", "all", 0.75, 0.7, 0.8, 0))
    return filled(DIFFERING, rows, "quantity differs operators value low high pairs", k=10)


ABLATED = {"faithfulness": 0.5, "accuracy": 0.4, "probability": 0.3}
MOVED = {
    "matched_minus_same_answer": (0.6, 0.9),
    "matched_minus_copied_answer": (0.6, 0.2),
    "imposed": (0.2, 0.0),
    "interchange": (0.3, 0.1),
    "interchange_minus_copied": (0.3, 0.4),
    "matched_minus_baseline": (0.6, 0.5),
}


EVERYWHERE = "circuit_minus_control_everywhere"
EXCHANGED = "exchanged_minus_own_beyond_control"


def of_specificity():
    own = {"metric": ["accuracy", "probability"], "intervention": "knockout"}
    damaged = own | {"first": 0.3, "second": 0.1, "low": -0.1, "high": 0.5}
    against = ["own_minus_other_circuits", "own_minus_other_beyond_control", "circuit_minus_control"]
    knockout = {"first": 0.45, "second": 0.5, "ratio": 0.9, "ratio_low": 0.7, "ratio_high": 1.1}
    kept = {"first": 0.1, "second": 0.2, "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}
    yield damaged | {"contrast": against}
    yield own | {"contrast": EXCHANGED} | knockout
    yield own | {"contrast": EXCHANGED} | kept | {"intervention": "keep_only", "metric": "probability"}


@pytest.fixture
def tables():
    ablated = {"contrast": EVERYWHERE, "intervention": ["keep_only", "knockout"], "metric": [*ABLATED]}
    first = {"first": lambda table: table["metric"].map(ABLATED), "second": 0.2, "low": 0.1, "high": 0.3}
    moved = {"contrast": [*MOVED], "metric": "rate", "cells": 6, "low": -0.5, "high": -0.1}
    for place, name in enumerate(("first", "second")):
        moved[name] = lambda table, place=place: [MOVED[one][place] for one in table["contrast"]]
    every = [ablated | first, moved, *of_specificity()]
    exchanged = {"first": 0.9, "second": 0.7, "low": 0.1, "high": 0.3}
    return {
        "overlap": overlap([0.4, 0.5, 0.6]),
        "differing": differing(),
        "contrasts": pd.concat([contrasts(**some) for some in every], ignore_index=True),
        "residual_contrasts": contrasts(RESIDUAL_CONTRASTS, question=["meet", "served"], **exchanged),
    }


NUMBERS = ["value", "control_value", "difference", "low", "high"]
ROWS = {
    ("same", "jaccard"): (0.5, 0.05, "yes"),
    ("same", "jaccard beyond operator"): (0.5, 0.2, 0.3, 0.1, 0.5, "yes"),
    ("sufficient", "accuracy"): (0.4, 0.2, 0.2, 0.1, 0.3, "yes"),
    ("necessary", "faithfulness"): (0.5, 0.2, 0.3, 0.1, 0.3, "yes"),
    ("repaired", "rate"): (0.6, 0.5, 0.1, -0.5, -0.1, "no"),
    ("beyond_the_answer", "rate"): (0.6, 0.9, -0.3, -0.5, -0.1, "no"),
    ("beyond_the_answer", "rate beyond copied"): (0.6, 0.2, 0.4, -0.5, -0.1, "no"),
    ("imposed", "rate"): (0.2, 0.0, 0.2, -0.5, -0.1, "no"),
    ("interchange", "rate"): (0.3, 0.1, 0.2, -0.5, -0.1, "no"),
    ("interchange", "beyond copied"): (0.3, 0.4, -0.1, -0.5, -0.1, "no"),
    ("exchange", "accuracy"): (0.45, 0.5, 0.1, -0.1, 0.3, "undecided"),
    ("exchange", "probability"): (0.45, 0.5, 0.1, -0.1, 0.3, "undecided"),
    ("exchange", "probability kept"): (0.1, 0.2, -0.3, -0.4, -0.2, "undecided"),
    ("specific", "accuracy"): (0.3, 0.1, 0.2, -0.1, 0.5, "undecided"),
    ("meet", "layers"): (0.9, 0.7, 0.2, 0.1, "yes"),
    ("served", "rate"): (0.9, 0.7, 0.2, 0.1, "yes"),
}


def pooled(tables):
    """The verdicts over all operators."""
    return verdicts_table(tables).query("operator == 'all'").set_index(["question", "metric"])


def test_every_question_is_taken_from_its_contrast_over_all_cells(tables):
    found, every = pooled(tables), verdicts_table(tables)
    for key, (*numbers, word) in ROWS.items():
        assert found.loc[key, NUMBERS[: len(numbers)]].tolist() == pytest.approx(numbers), key
        assert found.loc[key, "verdict"] == word, key
    beyond = found.loc[("same", "jaccard beyond operator")]
    assert (found.loc[("same", "jaccard"), "cells"], beyond["cells"]) == (3, 18)
    by_operator = every[every["metric"] == "jaccard beyond operator"].set_index("operator")
    assert by_operator["verdict"].to_dict() == {"all": "yes", "+": "yes", "-": "undecided"}
    assert by_operator.loc["+", [*NUMBERS[:3], "cells"]].tolist() == pytest.approx([0.6, 0.3, 0.3, 9])
    for pairs, word in ((10, "no"), (9, "undefined")):
        few = pooled({**tables, "contrasts": tables["contrasts"].assign(prompts=pairs)})
        assert few.loc[("beyond_the_answer", "rate"), "verdict"] == word
        assert np.isnan(few.loc[("beyond_the_answer", "rate"), "difference"]) == (pairs < 10)
    # With one operator there is no invariance.
    one = pooled({**tables, "differing": tables["differing"].iloc[:0]})
    assert one.loc["same"].index.tolist() == ["jaccard"]


def test_questions_without_a_table_are_left_out(tables):
    every = verdicts_table(tables)
    some = verdicts_table({name: table for name, table in tables.items() if name != "residual_contrasts"})
    expected = every[~every["question"].isin(["meet", "served"])]
    pd.testing.assert_frame_equal(some, expected.reset_index(drop=True), check_dtype=False)
    assert len(verdicts_at(some, 10)) == len(verdicts_at(every, 10)) - 2


def test_no_and_nearly_all_shared_neurons_have_the_wider_side_of_their_interval(tables):
    for value, half, word in ((0.0, -np.log(0.025) / 450, "undecided"), (0.98, 0.08, "yes")):
        limits = {"low": max(value - half, 0), "high": min(value + half, 1)}
        cut = tables["overlap"].assign(jaccard=value, chance=0.001, chance_spread=0.01, **limits)
        rows = verdicts_table({**tables, "overlap": cut}).query("metric == 'jaccard'").set_index("operator")
        for name, width in (("0", half), ("all", half / 3**0.5)):
            width = np.hypot(width, 0.01 * Z95)  # operators may have the same candidates
            found = rows.loc[name, ["low", "high"]].tolist()
            assert found == pytest.approx([value - 0.001 - width, value - 0.001 + width])
            assert rows.loc[name, "verdict"] == word


def test_nothing_is_claimed_of_sets_that_are_over_a_quarter_of_the_candidates(tables):
    few = verdicts_table({**tables, "overlap": tables["overlap"].assign(candidates=39)})
    for table, word in ((verdicts_table(tables), "yes"), (few, "undecided")):
        assert {*table[(table["question"] == "same") & (table["operator"] == ALL)]["verdict"]} == {word}
    lines = " ".join(verdict_lines(few, "m", 10))
    assert "; at k = 10 of 39 candidates nothing is claimed" in " ".join(lines.split())


def test_an_operator_without_an_interval_is_left_out_of_the_mean(tables):
    known = tables["overlap"]["operator"] != "1"
    limits = {name: tables["overlap"][name].where(known) for name in ("low", "high")}
    found = pooled({**tables, "overlap": tables["overlap"].assign(**limits)}).loc[("same", "jaccard")]
    half = 0.1 * 2**0.5 / 2
    assert found[[*NUMBERS, "cells"]].tolist() == pytest.approx([0.5, 0.05, 0.45, 0.45 - half, 0.45 + half, 2])


def test_formats_that_surely_share_less_than_a_tenth_share_nothing_of_the_operator(tables):
    own = tables["differing"]
    others = own["quantity"] != "overlap"
    for high, word in ((0.09, "no"), (0.11, "undecided")):
        limits = {"value": 0.0, "low": -high, "high": high}
        nothing = own.assign(**{name: own[name].mask(others, value) for name, value in limits.items()})
        found = verdicts_table({**tables, "differing": nothing}).set_index(["metric", "operator"])["verdict"]
        assert found["jaccard beyond operator", "all"] == word
        # These operators have no invariance of their own.
        assert found["jaccard beyond operator", "+"] == "undecided"


def test_each_operator_has_its_row_and_opposite_verdicts_are_mixed(tables):
    rows = [("+", 0.3, 0.2, 0.09, 0.31), ("-", 0.9, -0.4, -0.5, -0.3), (ALL, 0.5, 0.0, -0.5, 0.5)]
    table = filled(
        CONTRASTS,
        [(ALL, *row) for row in rows] + [("word", *row[:2], 9.0, *row[3:]) for row in rows[:2]],
        "format operator second difference low high",
        **{"k": 10, "intervention": "knockout", "metric": "probability", "cells": 2, "first": 0.5},
        contrast=EVERYWHERE,
        verdict=lambda table: list(map(verdict, table["low"], table["high"])),
    )
    larger = table.assign(k=20, low=0.1, high=0.3, verdict="yes")
    others = tables["contrasts"].query("contrast != @EVERYWHERE")
    table = verdicts_table({**tables, "contrasts": pd.concat([others, table, larger])})
    asked = table[table["question"] == "necessary"]
    assert asked.loc[asked["k"] == 20, "verdict"].eq("yes").all(), "mixed at another k"
    found = asked[asked["k"] == 10].set_index("operator")
    assert found["verdict"].to_dict() == {"all": "mixed", "+": "yes", "-": "no"}
    assert found.loc["+", ["cells", *NUMBERS]].tolist() == pytest.approx([2, 0.5, 0.3, 0.2, 0.09, 0.31])
    assert found.loc["-", ["difference", "low", "high"]].tolist() == pytest.approx([-0.4, -0.5, -0.3])
    assert "    + +0.20 yes; - -0.40 no" in verdict_lines(table, "m", 10, operators=True)
    (told,) = answer({"verdicts": table}, 10)
    said = "with its 95 % interval (problems are resampled; operators, formats and directions are fixed)"
    assert said in told.sentence
    assert "+ +0.20 yes; - -0.40 no" in told.table["operator"].tolist()
    # `computed` shows a ratio: the difference plus 0.8.
    computed = found.reset_index().assign(question="computed")
    assert by_operator(computed, 10, "computed", "probability") == "+ 1.00 yes; - 0.40 no"


def changed(tables, names, column, limits):
    """The tables with other limits of some contrasts, by the value of a column, and with the verdicts of these."""
    chosen = tables["contrasts"]["contrast"].isin(names)
    some = tables["contrasts"][chosen]
    low, high = np.array([limits.get(name, (0.1, 0.3)) for name in some[column]]).T
    some = some.assign(low=low, high=high, verdict=list(map(verdict, low, high)))
    return {**tables, "contrasts": pd.concat([tables["contrasts"][~chosen], some])}


def test_the_probability_decides_of_ablations_and_the_least_favourable_null_of_others(tables):
    """A copied answer decides *more than the answer* where it can be told, and never *override*."""
    limits = {"probability": (-0.1, 0.3), "accuracy": (-0.3, -0.1)}
    table = verdicts_table(changed(tables, [EVERYWHERE], "metric", limits))
    (told,) = answer({"verdicts": table}, 10)
    for words in (
        "Do they keep more than controls? Undecided.",
        "Same neurons? Yes.",
        "Does a donor carry more than the answer? No.",
    ):
        assert words in told.sentence
    assert len(told.table) == table["question"].nunique()
    decided = verdicts_at(table, 10).set_index("question")["metric"]
    assert decided["sufficient"] == "probability"
    assert decided["same"] == "jaccard beyond operator"
    assert decided["exchange"] == "probability kept"

    same, copied, nothing = "matched_minus_same_answer", "matched_minus_copied_answer", (np.nan, np.nan)
    for limits, question, control, word in (
        ({copied: (-0.3, -0.1)}, "beyond_the_answer", "copied answer", "no"),
        ({same: (-0.1, 0.3)}, "beyond_the_answer", "same answer", "undecided"),
        ({copied: nothing}, "beyond_the_answer", "same answer", "yes"),
        ({same: nothing}, "beyond_the_answer", "same answer", "undefined"),
        ({"interchange_minus_copied": (-0.3, -0.1)}, "interchange", "permuted donors", "yes"),
    ):
        table = verdicts_table(changed(tables, MOVED, "contrast", limits))
        found = verdicts_at(table, 10).set_index("question")[["control", "verdict"]]
        assert found.loc[question].tolist() == [control, word], limits


def test_the_verdicts_on_the_screen_are_those_of_the_table(tables, tmp_path, capsys):
    table = verdicts_table(tables)
    lines = list(verdict_lines(table, "mine", 10))
    assert len([line for line in lines if not line.startswith("   ")]) == 3 + table["question"].nunique()
    assert max(map(len, lines)) <= 100
    assert lines[-1] == "  * Jaccard of two formats - of two operators; kept: others' best / own best - 0.8"
    shown = next(line for line in lines if "Does a donor impose its answer?" in line)
    assert shown.endswith("no        0.20 - 0.00 = +0.20 [-0.50, -0.10], n=60")
    write_table(table, tmp_path / "verdicts.parquet", VERDICTS, {"k_shown": 10}, {"model": "mine"})
    given = ["verdicts", str(tmp_path / "verdicts.parquet")]
    assert main(given) == main([*given, "--k", "10"]) == 0
    assert capsys.readouterr().out.splitlines() == 2 * [*lines, "", *LEGEND, ""]
    write_table(table.assign(k=20), tmp_path / "other.parquet", VERDICTS, {"k_shown": 20}, {"model": "other"})
    assert main([*given, str(tmp_path / "other.parquet")]) == 0, "each model's at its own k"
    assert capsys.readouterr().out.startswith("mine (k = 10), other (k = 20): k neurons of each late layer\n")
    assert main([*given, str(tmp_path / "other.parquet"), "--operators"]) == 0
    assert "other, k = 20 neurons of each late layer\n" in capsys.readouterr().out
    assert main([*given, "--k", "7"]) == 2
    assert "has no verdicts at k = 7; it has 10" in capsys.readouterr().err
    assert main(["verdicts", str(tmp_path)]) == 2
    assert f"{tmp_path} is no table; give results/MODEL/" in capsys.readouterr().err


def test_a_question_without_rows_is_undefined_in_the_figure(tables):
    table = verdicts_table(tables).query("question != 'meet'").assign(model="mine")
    figure = summary({"verdicts": table}, "title", 10)
    assert "undefined" in {text.get_text() for axes in figure.axes for text in axes.texts}


def test_a_contrast_that_decides_for_one_model_alone_has_a_line_for_the_other(tables):
    copied = "matched_minus_copied_answer"
    both = {
        model: verdicts_table(changed(tables, MOVED, "contrast", {copied: limits}))
        for model, limits in (("copies", (-0.3, -0.1)), ("cannot", (np.nan, np.nan)))
    }
    lines = list(side_by_side(both, dict.fromkeys(both, 10)))
    at = next(place for place, line in enumerate(lines) if line.startswith("    cannot  undefined nothing to"))
    assert lines[at - 1].startswith("    copies  no ")
    assert not lines[at + 1].startswith("    difference")


def test_models_are_side_by_side_where_both_have_an_answer(tables):
    """A contrast that decides a question has a line for each model; the last line counts untestable questions."""
    few = {**tables, "contrasts": tables["contrasts"].query("contrast != 'imposed'")}
    both = {"mine": verdicts_table(tables), "a second one": verdicts_table(few)}
    lines = list(side_by_side(both, {"mine": 10, "a second one": 10}))
    assert max(map(len, lines)) <= 100
    assert lines[0] == "mine, a second one: k = 10 neurons of each late layer"
    assert "Does a donor impose" not in "".join(lines)
    assert lines[-1] == "  1 more question cannot be tested in a second one."
    rows = [line for line in lines if line.startswith("    ") and line.lstrip() == line[4:]]
    differences = [row for row in rows if row.startswith("    difference")]
    rows = [row for row in rows if row not in differences]
    assert [row.split()[0] for row in rows] == len(rows) // 2 * ["mine", "a"]
    assert 3 < len(differences) < len(rows) / 2, "not of layers, and not of what is undefined"
    for row in differences:
        value, low, high = map(float, re.sub(r"[\[\],]", " ", row).split()[1:])
        assert value == 0
        assert low == -high < 0
    alone = " ".join(" ".join(verdict_lines(both["mine"], "mine", 10)).split())
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert first.removeprefix("    mine").strip() == second.removeprefix("    a second one").strip()
        assert " ".join(first.split()[1:]) in alone
