"""The verdicts: each question's row equals the contrast that it is taken from."""

import numpy as np
import pandas as pd
import pytest

from form_invariance.cli import main
from form_invariance.stages.contrasts import ALL, verdict
from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS
from form_invariance.stages.overlap.table import DIFFERING, OVERLAP
from form_invariance.stages.specificity.table import SPECIFICITY_CONTRASTS
from form_invariance.stages.summary.answer import answer
from form_invariance.stages.summary.compute import verdicts_table
from form_invariance.stages.summary.lines import verdict_lines, verdicts_at
from form_invariance.stages.summary.table import VERDICTS
from form_invariance.stages.transfer.table import TRANSFER_CONTRASTS
from form_invariance.stages.verdicts import deciding
from form_invariance.tables.files import write_table


def rows_of(schema, rows):
    """A table with zeros or empty texts in the columns that the rows leave out, and verdicts by its limits."""
    empty = {name: "" if column.type == "string" else 0 for name, column in schema.columns.items()}
    table = pd.DataFrame([empty | row for row in rows])
    if "limit_error" not in table:
        return table
    return table.assign(verdict=list(map(verdict, table["low"], table["high"], table["limit_error"])))


def overlap(jaccards, half=0.1):
    formats = [("s+c+w", jaccard) for jaccard in jaccards]
    return pd.concat(
        rows_of(
            OVERLAP,
            [
                {"k": 10, "layer": -1, "formats": name, "used": used, "jaccard": value, "chance": 0.05}
                | {"low": value - half, "high": value + half}
                for used, value in ((True, jaccard), (False, 0.9))
            ],
        ).assign(operator=str(place))
        for place, (name, jaccard) in enumerate(formats)
    )


def differing():
    overlaps = (("nothing", 0.6), ("format", 0.5), ("operator", 0.3), ("both", 0.2))
    rows = [
        {"quantity": "overlap", "differs": what, "operators": operators, "value": value + more, "pairs": pairs}
        for what, value in overlaps
        for operators, more, pairs in (("all", 0, 18), ("+", 0.1, 9), ("-", -0.1, 9))
    ]
    own = {"quantity": "operators_own", "value": 0.3}
    rows += [
        {**own, "operators": operators, "low": 0.3 - half, "high": 0.3 + half}
        for operators, half in (("all", 0.2), ("+", 0.1), ("-", 0.4))
    ]
    rows.append({"quantity": "invariance", "operators": "all", "value": 0.75, "low": 0.7, "high": 0.8})
    return rows_of(DIFFERING, [{"k": 10, **row} for row in rows])


@pytest.fixture
def tables():
    limits = {"low": 0.1, "high": 0.3}
    ablated = [
        {"format": name, "operator": name, "k": 10, "intervention": done, "metric": metric, "cells": 4}
        | {"first": value, "second": 0.2, "difference": value - 0.2, **limits}
        for name in ("word", "all")
        for done in ("keep_only", "knockout")
        for metric, value in (("faithfulness", 0.5), ("accuracy", 0.4), ("probability", 0.3))
    ]
    moved = [
        {"operator": name, "direction": name, "k": 10, "contrast": contrast, "first": first, "second": second}
        | {"difference": first - second, "low": -0.5, "high": -0.1, "cells": 6, "prompts": 60}
        for name in ("+", "all")
        for contrast, first, second in (
            ("matched_minus_same_answer", 0.6, 0.9),
            ("imposed", 0.2, 0.0),
            ("interchange", 0.3, 0.1),
            ("matched_minus_baseline", 0.6, 0.5),
        )
    ]
    specific = [
        {"format": name, "operator": name, "intervention": "knockout", "k": 10, "task": task, "metric": metric}
        | {"cells": 4}
        | {"contrast": contrast, "first": 0.3, "second": 0.1, "difference": 0.2, "low": -0.1, "high": 0.5}
        for name in ("word", "all")
        for task in ("other_operators", "text")
        for metric in ("accuracy", "probability", "loss")
        for contrast in ("own_minus_other", "own_minus_other_beyond_control", "circuit_minus_control")
    ]
    specific += [
        {"format": name, "operator": name, "intervention": "knockout", "k": 10, "task": "own"}
        | {"contrast": "own_minus_other_circuits", "metric": metric, "cells": 4}
        | {"first": 0.3, "second": 0.1, "difference": 0.2, "low": -0.1, "high": 0.5}
        for name in ("word", "all")
        for metric in ("accuracy", "probability", "loss")
    ]
    exchanged = {"first": 0.45, "second": 0.5, "ratio": 0.9, "ratio_low": 0.7, "ratio_high": 1.1}
    kept = {"first": 0.1, "second": 0.2, "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}
    specific += [
        {"format": name, "operator": name, "k": 10, "task": "own", "intervention": done, "metric": metric}
        | {"contrast": "exchanged_minus_own_beyond_control", **(kept if done == "keep_only" else exchanged)}
        for name in ("word", "all")
        for done in ("keep_only", "knockout")
        for metric in ("accuracy", "probability", "loss")
    ]
    return {
        "overlap": overlap([0.4, 0.5, 0.6]),
        "differing": differing(),
        "intervention_contrasts": rows_of(INTERVENTION_CONTRASTS, ablated),
        "transfer_contrasts": rows_of(TRANSFER_CONTRASTS, moved),
        "specificity_contrasts": rows_of(SPECIFICITY_CONTRASTS, specific),
    }


def test_every_question_is_taken_from_its_contrast_over_all_cells(tables):
    every = verdicts_table(tables)
    found = every[every["operator"] == "all"].set_index(["question", "metric"])
    assert found.index.is_unique
    same = found.loc[("same", "jaccard"), ["value", "control_value", "cells"]]
    assert same.tolist() == pytest.approx([0.5, 0.05, 3])
    assert found.loc[("sufficient", "accuracy"), ["value", "control_value", "difference"]].tolist() == [
        0.4,
        0.2,
        0.2,
    ]
    beyond = found.loc[("same", "jaccard beyond operator")]
    assert beyond[["value", "control_value", "difference", "low", "high"]].tolist() == pytest.approx(
        [0.5, 0.2, 0.3, 0.1, 0.5]
    )
    assert (beyond["control"], beyond["verdict"], beyond["cells"]) == ("another operator", "yes", 18)
    by_operator = every[every["metric"] == "jaccard beyond operator"].set_index("operator")
    assert by_operator.index.tolist() == ["all", "+", "-"]
    assert by_operator["verdict"].tolist() == ["yes", "yes", "undecided"]
    assert by_operator.loc["+", ["value", "control_value", "difference", "cells"]].tolist() == pytest.approx(
        [0.6, 0.3, 0.3, 9]
    )
    assert found.loc[("repaired", "rate"), ["value", "control_value"]].tolist() == [0.6, 0.5]
    assert found.loc[("interchange", "rate"), ["value", "control_value"]].tolist() == [0.3, 0.1]
    numbers = ["value", "control_value", "difference", "low", "high"]
    for metric in ("accuracy", "probability"):
        exchange = found.loc[("exchange", metric)]
        assert exchange[numbers].tolist() == pytest.approx([0.45, 0.5, 0.1, -0.1, 0.3])
        assert exchange["verdict"] == "undecided"
    assert found.loc[("exchange", "probability kept"), numbers].tolist() == pytest.approx(
        [0.1, 0.2, -0.3, -0.4, -0.2]
    )
    assert verdicts_at(every, 10).set_index("question")["metric"]["exchange"] == "probability kept"
    metrics = found.loc["specific"].index.tolist()
    assert metrics == ["accuracy", "accuracy beyond control", "probability", "probability beyond control"]
    moved = found.loc[("beyond_the_answer", "rate")]
    assert moved[["value", "control_value"]].tolist() == [0.6, 0.9]
    assert moved["difference"] == pytest.approx(-0.3)
    assert found.loc[("imposed", "rate"), "value"] == 0.2
    assert moved["verdict"] == "no"
    for pairs, word in ((10, "no"), (9, "undefined")):
        few = {**tables, "transfer_contrasts": tables["transfer_contrasts"].assign(prompts=pairs)}
        again = verdicts_table(few).query("operator == 'all'").set_index(["question", "metric"])
        assert again.loc[("beyond_the_answer", "rate"), "verdict"] == word
        assert np.isnan(again.loc[("beyond_the_answer", "rate"), "difference"]) == (pairs < 10)
    assert found["verdict"].unstack().loc["specific", "accuracy"] == "undecided"
    assert found.loc[("necessary", "faithfulness"), "verdict"] == "yes"


def test_no_shared_neuron_has_an_interval(tables):
    nothing = tables["overlap"].assign(jaccard=0.0, low=0.0, high=-np.log(0.025) / 450, chance=0.001)
    rows = verdicts_table({**tables, "overlap": nothing}).query("metric == 'jaccard'").set_index("operator")
    half = -np.log(0.025) / 450
    for name, width in (("0", half), ("all", half / 3**0.5)):
        assert rows.loc[name, ["low", "high"]].tolist() == pytest.approx([-0.001 - width, -0.001 + width])
        assert rows.loc[name, "verdict"] == "undecided"


def test_formats_that_surely_share_less_than_a_tenth_share_nothing_of_the_operator(tables):
    own = tables["differing"]
    for high, word in ((0.09, "no"), (0.11, "undecided")):
        nothing = own.assign(
            value=own["value"].mask(own["quantity"] != "overlap", 0.0),
            low=own["low"].mask(own["quantity"] != "overlap", -high),
            high=own["high"].mask(own["quantity"] != "overlap", high),
        )
        found = verdicts_table({**tables, "differing": nothing}).set_index(["metric", "operator"])
        assert found.loc[("jaccard beyond operator", "all"), "verdict"] == word
        # These operators have no invariance of their own.
        assert found.loc[("jaccard beyond operator", "+"), "verdict"] == "undecided"


def test_each_operator_has_its_row_and_opposite_verdicts_are_mixed(tables, capsys):
    limits = {"+": (0.2, 0.11), "-": (-0.4, 0.1), ALL: (0.0, 0.5)}
    rows = [
        {
            "format": ALL,
            "operator": operator,
            "k": 10,
            "intervention": "knockout",
            "metric": "accuracy",
            "cells": 2,
        }
        | {"first": 0.5, "second": 0.5 - middle, "difference": middle, "low": middle - half, "high": middle + half}
        for operator, (middle, half) in limits.items()
    ]
    cells = [{**row, "format": "word", "difference": 9.0} for row in rows[:2]]
    tables["intervention_contrasts"] = rows_of(INTERVENTION_CONTRASTS, [*rows, *cells])
    table = verdicts_table(tables)
    found = table[table["question"] == "necessary"].set_index("operator")
    assert list(found.index) == ["all", "+", "-"]
    expected = {"cells": 2, "value": 0.5, "control_value": 0.3, "difference": 0.2, "low": 0.09, "high": 0.31}
    assert found.loc["+", list(expected)].tolist() == pytest.approx(list(expected.values()))
    assert found.loc["-", ["difference", "low", "high"]].tolist() == pytest.approx([-0.4, -0.5, -0.3])
    assert found["verdict"].tolist() == ["mixed", "yes", "no"]
    shown = list(verdict_lines(table, "m", 10))
    place = next(place for place, line in enumerate(shown) if "Do they cost more than controls?" in line)
    assert " mixed " in shown[place]
    assert shown[place + 1] == "    + +0.20 yes, - -0.40 no"
    (told,) = answer({"verdicts": table}, 10)
    assert "+ +0.20 yes, - -0.40 no" in told.table["operator"].tolist()


def test_the_probability_decides_of_ablations_and_the_least_favourable_null_of_others(tables):
    contrasts = tables["intervention_contrasts"]
    contrasts.loc[contrasts["metric"] == "probability", ["low", "high"]] = -0.1, 0.3
    contrasts.loc[contrasts["metric"] == "accuracy", ["low", "high"]] = -0.3, -0.1
    contrasts["verdict"] = list(map(verdict, contrasts["low"], contrasts["high"]))
    table = verdicts_table(tables)
    (told,) = answer({"verdicts": table}, 10)
    assert "Do they keep more than controls? Undecided." in told.sentence
    assert "Same neurons? Yes." in told.sentence
    assert "More than the answer? No." in told.sentence
    assert len(told.table) == table["question"].nunique()
    assert deciding(table[table["question"] == "sufficient"])["metric"] == "probability"
    assert deciding(table[table["question"] == "same"])["metric"] == "jaccard beyond operator"


def test_without_a_shared_neuron_questions_are_undefined_but_the_first_is_no(tables):
    for name in ("intervention_contrasts", "transfer_contrasts", "specificity_contrasts"):
        numbers = tables[name].select_dtypes("number").columns.difference(["k", "cells", "pairs", "prompts"])
        tables[name] = tables[name].astype(dict.fromkeys(numbers, float))
        tables[name][list(numbers)] = np.nan
        tables[name]["verdict"] = "undefined"
    tables["overlap"] = overlap([0.0, 0.0, 0.0], half=0.0).assign(union=10000)
    found = verdicts_table(tables).query("operator == 'all'")
    said = found.drop_duplicates("question").set_index("question")["verdict"]
    assert said.pop("same") == "no"
    assert found.set_index("metric")["verdict"]["jaccard beyond operator"] == "yes"
    assert set(said) == {"undefined"}


def test_the_verdicts_on_the_screen_are_those_of_the_table(tables, tmp_path, capsys):
    table = verdicts_table(tables)
    lines = list(verdict_lines(table, "mine", 10))
    assert lines[0] == "mine, k = 10 neurons of each late layer"
    questions = [line for line in lines if not line.startswith("    ")]
    assert len(questions) == 1 + table["question"].nunique()
    told = next(line for line in lines if "Does a donor impose its answer?" in line)
    row = table.query("question == 'imposed' and k == 10").iloc[0]
    assert f"{row['verdict']} " in told
    assert f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]" in told
    nothing = table.assign(low=np.nan, high=np.nan, verdict="undefined")
    *others, exchange, specific = list(verdict_lines(nothing, "mine", 10))[1:]
    assert all("undefined  nothing to compare" in line for line in [*others, specific])
    assert "undefined  0.45 against 0.50: no ratio, the latter may be zero" in exchange
    write_table(table, tmp_path / "verdicts.parquet", VERDICTS, {"k_shown": 10})
    given = ["verdicts", "--tables", f"mine={tmp_path / 'verdicts.parquet'}"]
    assert main(given) == main([*given, "--k", "10"]) == 0
    assert capsys.readouterr().out.splitlines() == [*lines, "", *lines, ""]
    assert main([*given, "--k", "7"]) == 2
    assert "has no verdicts at k = 7; it has 10" in capsys.readouterr().err


def test_with_one_operator_there_is_no_invariance(tables):
    found = verdicts_table({**tables, "differing": tables["differing"].iloc[:0]})
    assert found.query("question == 'same'")["metric"].eq("jaccard").all()
