"""The verdicts: each question's row equals the contrast that it is taken from."""

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled, joined

from form_invariance.beyond.specificity.table import SPECIFICITY_CONTRASTS
from form_invariance.cli import main
from form_invariance.experiment.contrasts import ALL, verdict
from form_invariance.experiment.verdicts import deciding
from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS
from form_invariance.stages.overlap.table import DIFFERING, OVERLAP
from form_invariance.stages.transfer.table import TRANSFER_CONTRASTS
from form_invariance.tables.files import write_table
from form_invariance.verdicts.summary.answer import answer
from form_invariance.verdicts.summary.compute import verdicts_table
from form_invariance.verdicts.summary.lines import verdict_lines, verdicts_at
from form_invariance.verdicts.summary.table import VERDICTS

FORMATS = {"k": 10, "format": ["word", "all"], "operator": ["word", "all"]}


def contrasts(schema, **columns):
    """A row of one cell and one of all cells for each combination of the columns, with verdicts by its limits."""
    columns = FORMATS | {"cells": 4, "prompts": 60, "limit_error": 0.0} | columns
    table = crossed(schema, **{name: value for name, value in columns.items() if name in schema.columns})
    table = table[table["operator"] == table["direction" if "direction" in table else "format"]]
    first, second = table["first"], table["second"]
    difference = table["difference"].fillna(first - second) if "difference" in table else first - second
    words = list(map(verdict, table["low"], table["high"]))
    return table.assign(difference=difference, verdict=words).reset_index(drop=True)


def overlap(jaccards, half=0.1):
    rows = {}
    for place, jaccard in enumerate(jaccards):
        values = [(used, value, value - half, value + half) for used, value in ((True, jaccard), (False, 0.9))]
        columns = {"k": 10, "layer": -1, "formats": "s+c+w", "chance": 0.05}
        rows[str(place)] = filled(OVERLAP, values, "used jaccard low high", **columns)
    return joined(rows, "operator")


def differing():
    overlaps = (("nothing", 0.6), ("format", 0.5), ("operator", 0.3), ("both", 0.2))
    nan = float("nan")
    rows = [
        ("overlap", what, operators, value + more, nan, nan, pairs)
        for what, value in overlaps
        for operators, more, pairs in (("all", 0, 18), ("+", 0.1, 9), ("-", -0.1, 9))
    ]
    rows += [
        ("operators_own", "", operators, 0.3, 0.3 - half, 0.3 + half, 0)
        for operators, half in (("all", 0.2), ("+", 0.1), ("-", 0.4))
    ]
    rows.append(("invariance", "", "all", 0.75, 0.7, 0.8, 0))
    return filled(DIFFERING, rows, "quantity differs operators value low high pairs", k=10)


@pytest.fixture
def tables():
    metrics = ["faithfulness", "accuracy", "probability"]
    ablated = {
        "intervention": ["keep_only", "knockout"],
        "metric": metrics,
        "second": 0.2,
        "low": 0.1,
        "high": 0.3,
    }
    moved = {
        "matched_minus_same_answer": (0.6, 0.9),
        "matched_minus_copied_answer": (0.6, 0.2),
        "imposed": (0.2, 0.0),
        "interchange": (0.3, 0.1),
        "interchange_minus_copied": (0.3, 0.4),
        "matched_minus_baseline": (0.6, 0.5),
    }
    own = {"metric": ["accuracy", "probability", "loss"], "intervention": "knockout"}
    damaged = own | {"first": 0.3, "second": 0.1, "low": -0.1, "high": 0.5}
    against = ["own_minus_other", "own_minus_other_beyond_control", "circuit_minus_control"]
    exchanged = own | {"contrast": "exchanged_minus_own_beyond_control", "task": "own"}
    knockout = {"first": 0.45, "second": 0.5, "ratio": 0.9, "ratio_low": 0.7, "ratio_high": 1.1}
    kept = {"first": 0.1, "second": 0.2, "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}
    firsts = dict(zip(metrics, (0.5, 0.4, 0.3), strict=True))
    return {
        "overlap": overlap([0.4, 0.5, 0.6]),
        "differing": differing(),
        "intervention_contrasts": contrasts(
            INTERVENTION_CONTRASTS,
            **ablated,
            first=lambda table: table["metric"].map(firsts),
        ),
        "transfer_contrasts": contrasts(
            TRANSFER_CONTRASTS,
            direction=["+", "all"],
            operator=["+", "all"],
            contrast=[*moved],
            first=lambda table: [moved[name][0] for name in table["contrast"]],
            second=lambda table: [moved[name][1] for name in table["contrast"]],
            cells=6,
            low=-0.5,
            high=-0.1,
        ),
        "specificity_contrasts": pd.concat(
            [
                contrasts(SPECIFICITY_CONTRASTS, **damaged, task=["other_operators", "text"], contrast=against),
                contrasts(SPECIFICITY_CONTRASTS, **damaged, task="own", contrast="own_minus_other_circuits"),
                contrasts(SPECIFICITY_CONTRASTS, **exchanged, **knockout),
                contrasts(SPECIFICITY_CONTRASTS, **exchanged | {"intervention": "keep_only"}, **kept),
            ],
            ignore_index=True,
        ),
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
}


def test_every_question_is_taken_from_its_contrast_over_all_cells(tables):
    every = verdicts_table(tables)
    found = every[every["operator"] == "all"].set_index(["question", "metric"])
    assert found.index.is_unique
    for key, (*numbers, word) in ROWS.items():
        assert found.loc[key, NUMBERS[: len(numbers)]].tolist() == pytest.approx(numbers), key
        assert found.loc[key, "verdict"] == word, key
    beyond = found.loc[("same", "jaccard beyond operator")]
    assert (found.loc[("same", "jaccard"), "cells"], beyond["cells"], beyond["control"]) == (
        3,
        18,
        "another operator",
    )
    by_operator = every[every["metric"] == "jaccard beyond operator"].set_index("operator")
    assert by_operator["verdict"].to_dict() == {"all": "yes", "+": "yes", "-": "undecided"}
    assert by_operator.loc["+", [*NUMBERS[:3], "cells"]].tolist() == pytest.approx([0.6, 0.3, 0.3, 9])
    assert verdicts_at(every, 10).set_index("question")["metric"]["exchange"] == "probability kept"
    metrics = found.loc["specific"].index.tolist()
    assert metrics == ["accuracy", "accuracy beyond control", "probability", "probability beyond control"]
    for pairs, word in ((10, "no"), (9, "undefined")):
        few = {**tables, "transfer_contrasts": tables["transfer_contrasts"].assign(prompts=pairs)}
        again = verdicts_table(few).query("operator == 'all'").set_index(["question", "metric"])
        assert again.loc[("beyond_the_answer", "rate"), "verdict"] == word
        assert np.isnan(again.loc[("beyond_the_answer", "rate"), "difference"]) == (pairs < 10)


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


def test_each_operator_has_its_row_and_opposite_verdicts_are_mixed(tables):
    rows = [("+", 0.3, 0.2, 0.09, 0.31), ("-", 0.9, -0.4, -0.5, -0.3), (ALL, 0.5, 0.0, -0.5, 0.5)]
    table = filled(
        INTERVENTION_CONTRASTS,
        [(ALL, *row) for row in rows] + [("word", *row[:2], 9.0, *row[3:]) for row in rows[:2]],
        "format operator second difference low high",
        **{"k": 10, "intervention": "knockout", "metric": "accuracy", "cells": 2, "first": 0.5},
        verdict=lambda table: list(map(verdict, table["low"], table["high"])),
    )
    table = verdicts_table({**tables, "intervention_contrasts": table})
    found = table[table["question"] == "necessary"].set_index("operator")
    assert list(found.index) == ["all", "+", "-"]
    assert found.loc["+", ["cells", *NUMBERS]].tolist() == pytest.approx([2, 0.5, 0.3, 0.2, 0.09, 0.31])
    assert found.loc["-", ["difference", "low", "high"]].tolist() == pytest.approx([-0.4, -0.5, -0.3])
    assert found["verdict"].tolist() == ["mixed", "yes", "no"]
    shown = list(verdict_lines(table, "m", 10, operators=True))
    place = next(place for place, line in enumerate(shown) if " mixed " in line)
    assert shown[place + 2] == "    + +0.20 yes, - -0.40 no"
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


def test_the_least_favourable_of_two_equal_answers_decides(tables):
    """A copied answer decides *More than the answer?* where it can be told, and never *override*."""
    contrasts = tables["transfer_contrasts"]

    def decided(**limits):
        low, high = np.array([limits.get(name, (0.1, 0.3)) for name in contrasts["contrast"]]).T
        changed = contrasts.assign(low=low, high=high, verdict=list(map(verdict, low, high)))
        table = verdicts_table({**tables, "transfer_contrasts": changed})
        return verdicts_at(table, 10).set_index("question")[["control", "verdict"]]

    answer, copied, nothing = "matched_minus_same_answer", "matched_minus_copied_answer", (np.nan, np.nan)
    for limits, control, word in (
        ({copied: (-0.3, -0.1)}, "copied answer", "no"),
        ({answer: (-0.1, 0.3)}, "same answer", "undecided"),
        ({copied: nothing}, "same answer", "yes"),
        ({answer: nothing}, "same answer", "undefined"),
    ):
        assert decided(**limits).loc["beyond_the_answer"].tolist() == [control, word], limits
    found = decided(interchange_minus_copied=(-0.3, -0.1))
    assert found.loc["interchange"].tolist() == ["permuted donors", "yes"]


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
    assert len(lines) == 1 + table["question"].nunique()
    assert max(map(len, lines)) <= 100
    shown = next(line for line in lines if "Does a donor impose its answer?" in line)
    row = table.query("question == 'imposed' and k == 10").iloc[0]
    assert f"{row['verdict']} " in shown
    assert f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]" in shown
    write_table(table, tmp_path / "verdicts.parquet", VERDICTS, {"k_shown": 10}, {"model": "mine"})
    given = ["verdicts", str(tmp_path / "verdicts.parquet")]
    assert main(given) == main([*given, "--k", "10"]) == 0
    assert capsys.readouterr().out.splitlines() == [*lines, "", *lines, ""]
    assert main([*given, "--k", "7"]) == 2
    assert "has no verdicts at k = 7; it has 10" in capsys.readouterr().err


def test_with_one_operator_there_is_no_invariance(tables):
    found = verdicts_table({**tables, "differing": tables["differing"].iloc[:0]})
    assert found.query("question == 'same'")["metric"].eq("jaccard").all()
